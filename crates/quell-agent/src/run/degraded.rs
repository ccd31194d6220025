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
/// After this many ends the scheduler stays off.
pub const STRIKES: u32 = 3;

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

/// The scheduler's ends so far. A file keeps them: a worker that is started again goes on where the last one died.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Ends {
    count: u32,
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
        let off = Degraded { why, again_at: (!by_hand && self.count < STRIKES).then_some(now + PAUSE) };
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
