//! Without Quell's scheduler, where a policy asks for it: it is being loaded, or the kernel ended or refused it. CPUs are lent
//! by affinity then, beside `guard`, until the scheduler is loaded.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::api::Starting;

/// Shortest time from an end of the scheduler to its next load.
pub const PAUSE: Nanos = Nanos::from_secs(600);
/// After this many ends of one cause, each within [`HELD`] of now, the scheduler stays off.
pub const STRIKES: usize = 3;
/// An end counts for this long.
pub const HELD: Nanos = Nanos::from_secs(86_400);
/// And no more than this many of them, the last ones, are kept.
const KEPT: usize = 64;

/// The scheduler's end, and what follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degraded {
    /// The kernel's reason.
    pub why: String,
    /// Time of the next load; `None`: at the next SIGHUP.
    pub again_at: Option<Nanos>,
}

impl Degraded {
    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let then = match self.again_at {
            Some(_) => format!("it is loaded again after {} minutes", PAUSE.0 / 60_000_000_000),
            None => "it stays off until the configuration is reloaded (systemctl reload quell, or SIGHUP)".to_owned(),
        };
        format!("Quell's scheduler is off, CPUs are lent by affinity: {}; {then}", self.why)
    }

    /// Is it time to load the scheduler again?
    #[must_use]
    pub fn is_over(&self, now: Nanos) -> bool {
        self.again_at.is_some_and(|at| now >= at)
    }
}

/// Quell's scheduler is being loaded on another thread, which the kernel's verifier may take minutes for.
#[derive(Clone, Debug)]
pub struct Loading {
    since: Nanos,
    done: Arc<AtomicBool>,
}

impl Loading {
    /// Loading began at this time; `done` is set at its end, whatever that is.
    #[must_use]
    pub fn new(since: Nanos, done: Arc<AtomicBool>) -> Loading {
        Loading { since, done }
    }

    /// Has it ended?
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// What the status says meanwhile.
    #[must_use]
    pub fn starting(&self) -> Starting {
        let what = "loading Quell's scheduler: the kernel verifies it (CPUs are lent by affinity until it runs)";
        Starting { what: what.to_owned(), since: self.since }
    }
}

/// One end of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Strike {
    cause: String,
    at: Nanos,
}

/// What ends for this reason have in common: the kernel's reason without the thread, its number and the times.
fn cause_of(why: &str) -> String {
    let mut depth = 0_u32;
    let outside = why.chars().filter(|letter| {
        depth += u32::from(*letter == '(');
        let is_outside = depth == 0;
        depth -= u32::from(*letter == ')' && depth > 0);
        is_outside
    });
    let words: String = outside.filter(|letter| !letter.is_ascii_digit()).take(120).collect();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The scheduler's ends so far. A file keeps them: a worker that is started again goes on where the last one died.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Ends {
    count: u32,
    /// The last ends, in their order.
    #[serde(default)]
    strikes: Vec<Strike>,
    off: Option<Degraded>,
    #[serde(skip)]
    file: Option<PathBuf>,
}

impl Ends {
    /// What this file says; no ends if it does not exist or cannot be read.
    #[must_use]
    pub fn kept_in(file: Option<PathBuf>, now: Nanos) -> Ends {
        let text = file.as_ref().and_then(|file| fs::read(file).ok());
        let kept: Ends = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        // The file may be of an earlier boot, with another clock.
        let off = kept.off.map(|off| Degraded { again_at: off.again_at.map(|at| at.min(now + PAUSE)), ..off });
        Ends { off, file, ..kept }
    }

    /// Is the scheduler off, and why?
    #[must_use]
    pub fn off(&self) -> Option<&Degraded> {
        self.off.as_ref()
    }

    /// Has it ended before?
    #[must_use]
    pub fn any(&self) -> bool {
        self.count > 0
    }

    /// It ended, or was refused, for this reason. After an end by a person it stays off.
    pub fn another(&mut self, why: String, by_hand: bool, now: Nanos) -> Degraded {
        self.count += 1;
        let cause = cause_of(&why);
        // One of an earlier boot, with another clock, may seem to come later.
        self.strikes.retain(|strike| strike.at <= now && now.since(strike.at) < HELD);
        self.strikes.push(Strike { cause: cause.clone(), at: now });
        let (more, its) = (self.strikes.len().saturating_sub(KEPT), |strike: &&Strike| strike.cause == cause);
        self.strikes.drain(..more);
        let stays_off = by_hand || self.strikes.iter().filter(its).count() >= STRIKES;
        let off = Degraded { why, again_at: (!stays_off).then_some(now + PAUSE) };
        self.off = Some(off.clone());
        self.keep();
        off
    }

    /// The pause is over.
    pub fn end_pause(&mut self) {
        self.off = None;
        self.keep();
    }

    /// A person stopped the agent or had it read its configuration again: nothing is held against the scheduler any more.
    pub fn forget(self) {
        if let Some(file) = &self.file {
            // Not there: there was no end.
            let _ = fs::remove_file(file);
        }
    }

    fn keep(&self) {
        let Some(file) = &self.file else { return };
        let text = serde_json::to_vec(self).expect("numbers and text");
        if let Err(error) = fs::write(file, text) {
            tracing::warn!("{}: {error}; a restarted agent would load the scheduler immediately", file.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(5);

    #[test]
    fn it_is_loaded_again_after_ten_minutes_and_stays_off_at_the_third_end() {
        let mut ends = Ends::default();
        for _ in 1..STRIKES {
            let degraded = ends.another("a stall".into(), false, NOW);
            assert_eq!(degraded.again_at, Some(NOW + PAUSE));
            assert!(!degraded.is_over(NOW + PAUSE - Nanos(1)) && degraded.is_over(NOW + PAUSE));
            ends.end_pause();
            assert_eq!(ends.off(), None);
        }
        let degraded = ends.another("a stall".into(), false, NOW);
        assert_eq!(degraded.again_at, None);
        assert!(!degraded.is_over(Nanos::MAX) && degraded.line().contains("stays off"), "{}", degraded.line());
    }

    #[test]
    fn ends_are_counted_by_cause_and_for_a_day() {
        let stall = |pid: u32| format!("runnable task stall (worker[{pid}] failed to run for {pid}.1s)");
        assert_eq!(cause_of(&stall(1)), cause_of(&stall(22)));
        let hour = Nanos::from_secs(3_600);
        let mut ends = Ends::default();
        let mut end =
            |why: &str, hours: u64| ends.another(why.into(), false, NOW + Nanos(hour.0 * hours)).again_at.is_some();
        assert!(end(&stall(1), 0) && end(&stall(2), 1) && end("an error", 2), "another cause is no third end");
        // The first one is a day ago, the second is not.
        assert!(end(&stall(3), 24) && !end(&stall(4), 24));
        // All of them are: three in a year are not three.
        assert!(end(&stall(5), 24 * 100) && end(&stall(6), 24 * 200) && end(&stall(7), 24 * 300));
    }

    #[test]
    fn what_an_agent_of_an_earlier_version_kept_is_read() {
        let ends: Ends = serde_json::from_str(r#"{"count":2,"off":null}"#).unwrap();
        assert!(ends.any() && ends.strikes.is_empty());
    }

    #[test]
    fn what_a_person_ended_stays_off() {
        assert_eq!(Ends::default().another("SysRq-S".into(), true, Nanos::ZERO).again_at, None);
    }

    #[test]
    fn a_worker_that_is_started_again_keeps_to_it_until_a_person_says_otherwise() {
        let directory = tempfile::tempdir().unwrap();
        let file = Some(directory.path().join("ends"));
        let off = Ends::kept_in(file.clone(), NOW).another("a stall".into(), false, NOW);
        let mut next = Ends::kept_in(file.clone(), NOW + PAUSE);
        assert_eq!((next.off(), next.any()), (Some(&off), true));
        next.end_pause();
        next.another("SysRq-S".into(), true, NOW);
        let next = Ends::kept_in(file.clone(), NOW);
        assert_eq!(next.off().unwrap().again_at, None);
        next.forget();
        assert!(!Ends::kept_in(file, NOW).any());
    }

    #[test]
    fn a_time_of_another_boot_is_no_longer_than_a_pause() {
        let directory = tempfile::tempdir().unwrap();
        let file = Some(directory.path().join("ends"));
        Ends::kept_in(file.clone(), NOW).another("a stall".into(), false, Nanos::from_secs(1_000_000));
        assert_eq!(Ends::kept_in(file, NOW).off().unwrap().again_at, Some(NOW + PAUSE));
    }
}
