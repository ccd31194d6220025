//! Watchdogs of units, as systemd itself says: a process's environment is the process's own. An ordinary thread asks
//! `systemctl`, never the loop's.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use quell_model::{Nanos, foreign};

use super::scout::become_ordinary;
use crate::Roots;

/// A unit is asked for again after this time: `systemctl daemon-reload` may have changed it.
const AGAIN: Nanos = Nanos::from_secs(60);
/// systemd answers within this time, or not.
const PATIENCE: Duration = Duration::from_secs(5);
/// Units in one question.
const AT_ONCE: usize = 64;

/// What is known of a unit's watchdog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Watchdog {
    /// systemd has not answered, or cannot.
    #[default]
    Unknown,
    /// It has none.
    Absent,
    /// WatchdogSec: after this time without a sign of life systemd ends the unit.
    Every(Nanos),
}

type Answer = (String, Watchdog);

#[derive(Debug)]
struct Asker {
    questions: Sender<String>,
    answers: Receiver<Answer>,
}

/// This machine's systemd, if it has one.
#[derive(Debug, Default)]
pub(super) struct Systemd {
    /// Exists where systemd runs (sd_booted(3)).
    sign: PathBuf,
    program: PathBuf,
    asker: Option<Asker>,
    /// By unit, with the time of the last question.
    known: BTreeMap<String, (Watchdog, Nanos)>,
}

impl Systemd {
    /// Nothing is asked yet.
    pub fn of(roots: &Roots) -> Systemd {
        let (sign, program) = (roots.run.join("systemd/system"), roots.systemctl.clone());
        Systemd { sign, program, asker: None, known: BTreeMap::new() }
    }

    /// A unit's watchdog as last known; systemd is asked where that is not known or long ago. Never waits.
    pub fn watchdog(&mut self, unit: &str, now: Nanos) -> Watchdog {
        if !self.sign.exists() {
            return Watchdog::Absent;
        }
        self.take_answers();
        let known = self.known.get(unit).copied();
        if known.is_none_or(|(_, asked)| now >= asked + AGAIN) {
            self.ask(unit);
            self.known.insert(unit.to_owned(), (known.unwrap_or_default().0, now));
        }
        known.unwrap_or_default().0
    }

    fn take_answers(&mut self) {
        let Some(asker) = &self.asker else { return };
        for (unit, watchdog) in asker.answers.try_iter() {
            if let Some(known) = self.known.get_mut(&unit) {
                known.0 = watchdog;
            }
        }
    }

    fn ask(&mut self, unit: &str) {
        if self.asker.is_none() {
            self.asker =
                start(self.program.clone()).inspect_err(|error| tracing::warn!(%error, "cannot ask systemd")).ok();
        }
        if let Some(asker) = &self.asker {
            let _ = asker.questions.send(unit.to_owned());
        }
    }
}

fn start(program: PathBuf) -> std::io::Result<Asker> {
    let (questions, asked) = channel::<String>();
    let (sender, answers) = channel();
    let work = move || {
        let _ = become_ordinary();
        let mut said = false;
        while let Ok(first) = asked.recv() {
            let units: Vec<String> = std::iter::once(first).chain(asked.try_iter()).take(AT_ONCE).collect();
            let found = show(&program, &units);
            if let (Err(why), false) = (&found, said) {
                tracing::warn!(
                    "systemd does not report which units have a watchdog, so none is paused: {} of {}: {why}",
                    foreign::path(&program),
                    units.join(" ")
                );
            }
            said = found.is_err();
            let found = found.unwrap_or_else(|_| vec![Watchdog::Unknown; units.len()]);
            if units.into_iter().zip(found).any(|answer| sender.send(answer).is_err()) {
                return;
            }
        }
    };
    Builder::new().name("quell-systemd".into()).spawn(work)?;
    Ok(Asker { questions, answers })
}

/// The watchdogs of these units, in their order.
fn show(program: &PathBuf, units: &[String]) -> Result<Vec<Watchdog>, String> {
    let mut child = Command::new(program)
        .args(["show", "--property=WatchdogUSec", "--"])
        .args(units)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let began = std::time::Instant::now();
    // A few lines: they fit into the pipe before any is read.
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break Ok(()),
            Ok(Some(status)) => break Err(status.to_string()),
            Ok(None) if began.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => break Err(format!("no answer within {} s", PATIENCE.as_secs())),
            Err(error) => break Err(error.to_string()),
        }
    };
    if ended.is_err() {
        let _ = child.kill();
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    ended?;
    understood(&String::from_utf8_lossy(&output.stdout), units.len())
}

/// The answers to a question about this number of units: a block of lines each, with empty lines between.
fn understood(text: &str, units: usize) -> Result<Vec<Watchdog>, String> {
    let blocks: Vec<&str> = text.trim_end().split("\n\n").collect();
    if blocks.len() != units {
        return Err(format!("{} answers to {units} questions", blocks.len()));
    }
    let of = |block: &&str| match block.lines().find_map(|line| line.strip_prefix("WatchdogUSec=")) {
        // A kind of unit without one.
        None => Ok(Watchdog::Absent),
        Some(span) => time_span(span).ok_or_else(|| format!("'{span}' is not a time")),
    };
    blocks.iter().map(of).collect()
}

/// A time span as systemd prints it (systemd.time(7)): `1min 30s`, `400ms`, `infinity`; 0 is no watchdog.
fn time_span(text: &str) -> Option<Watchdog> {
    if text == "infinity" {
        return Some(Watchdog::Absent);
    }
    let mut sum = 0.0;
    for word in text.split_ascii_whitespace() {
        let unit = word.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let number: f64 = word[..word.len() - unit.len()].parse().ok()?;
        let microseconds = match unit {
            "us" | "" => 1.0,
            "ms" => 1e3,
            "s" => 1e6,
            "min" => 60e6,
            "h" => 3600e6,
            "d" => 86_400e6,
            "w" => 604_800e6,
            "month" => 2_629_800e6,
            "y" => 31_557_600e6,
            _ => return None,
        };
        sum += number * microseconds;
    }
    let every = Nanos((sum * 1e3) as u64);
    Some(if every == Nanos::ZERO { Watchdog::Absent } else { Watchdog::Every(every) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemctl_prints_is_understood() {
        let text = "WatchdogUSec=3s\n\nWatchdogUSec=infinity\n\n\n";
        assert_eq!(understood("WatchdogUSec=3s\n", 1), Ok(vec![Watchdog::Every(Nanos::from_secs(3))]));
        assert_eq!(understood(text, 2), Ok(vec![Watchdog::Every(Nanos::from_secs(3)), Watchdog::Absent]));
        assert!(understood(text, 3).is_err());
        assert!(understood("WatchdogUSec=soon\n", 1).unwrap_err().contains("soon"));
        let spans = [("1min 30s", 90_000_000_000), ("400ms", 400_000_000), ("1h 5.5s", 3_605_500_000_000)];
        for (text, nanoseconds) in spans {
            assert_eq!(time_span(text), Some(Watchdog::Every(Nanos(nanoseconds))), "{text}");
        }
        assert_eq!(time_span("0"), Some(Watchdog::Absent));
    }

    #[test]
    fn a_machine_without_systemd_has_no_watchdog_and_one_that_is_silent_an_unknown_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut systemd = Systemd::of(&Roots::under(directory.path()));
        assert_eq!(systemd.watchdog("a.service", Nanos(1)), Watchdog::Absent);
        std::fs::create_dir_all(directory.path().join("run/systemd/system")).unwrap();
        assert_eq!(systemd.watchdog("a.service", Nanos(1)), Watchdog::Unknown);
        assert!(show(&directory.path().join("none"), &["a.service".into()]).is_err());
    }
}
