//! A load in a process of its own, which counts its answers between two times, and can mark these.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use quell_bench::load::{LoadReport, Monitor};
use quell_command::programs;
use quell_command::request::Request;
use quell_guest::counts::Mark;
use serde::{Deserialize, Serialize};

use super::symbols;

/// The counted part is this much shorter than the measured one at either end: its ends are not met to the microsecond.
const MARGIN: Duration = Duration::from_millis(20);
/// Between looks whether the schedule has begun.
const NAP: Duration = Duration::from_millis(1);

/// What is counted while a load lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Counting {
    /// Nothing.
    Nothing,
    /// The answers.
    Answers,
    /// The answers, and the guest's instructions: of a scene's loads one sets the marks. The kernel's functions go into this
    /// file afterwards: reading them takes a second, which this CPU has and those of the scene have not.
    Instructions(PathBuf),
}

/// A load on one server.
#[derive(Serialize, Deserialize)]
pub struct Load {
    pub load: programs::Load,
    pub counting: Counting,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
pub struct Loaded {
    pub report: LoadReport,
    /// The answers in the counted part; 0 where none is counted.
    pub answers: u64,
}

impl Request for Load {
    const NAME: &'static str = "load";
    type Answer = Loaded;

    fn answer(self) -> Result<Loaded> {
        let [warm_up, duration] = [self.load.spec.warmup_ns, self.load.spec.duration_ns].map(Duration::from_nanos);
        let mut answers = Some(0);
        let report = self.load.watched(|monitor, has_ended| {
            if self.counting != Counting::Nothing {
                let marks = matches!(self.counting, Counting::Instructions(_));
                answers = counted(monitor, has_ended, [warm_up, duration], marks, sleep);
            }
        })?;
        if let Counting::Instructions(file) = &self.counting {
            fs::write(file, symbols::functions()?).with_context(|| format!("write {}", file.display()))?;
        }
        Ok(Loaded { report, answers: answers.context("the load ended before its measured part did")? })
    }
}

/// The answers in the measured part but for its margins; None if the load ends before that.
fn counted(
    monitor: &Monitor,
    has_ended: &dyn Fn() -> bool,
    [warm_up, duration]: [Duration; 2],
    marks: bool,
    mut pause: impl FnMut(Duration),
) -> Option<u64> {
    while monitor.planned.load(Relaxed) == 0 {
        if has_ended() {
            return None;
        }
        pause(NAP);
    }
    let answered = |mark: Mark| {
        if marks {
            mark.set();
        }
        monitor.answered.load(Relaxed)
    };
    pause(warm_up + MARGIN);
    let before = answered(Mark::Begin);
    pause(duration.saturating_sub(2 * MARGIN));
    let after = answered(Mark::End);
    (!has_ended()).then(|| after - before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_warm_up_do_not_count() {
        let monitor = Monitor::default();
        let mut pauses = Vec::new();
        // The schedule begins during the second look, and each pause has ten answers.
        let pause = |time: Duration| {
            pauses.push(time.as_millis());
            monitor.planned.store(pauses.len() as u64 / 2, Relaxed);
            monitor.answered.fetch_add(10, Relaxed);
        };
        let times = [2000, 1000].map(Duration::from_millis);
        assert_eq!(counted(&monitor, &|| false, times, false, pause), Some(10));
        assert_eq!(pauses, [1, 1, 2020, 960]);
    }

    #[test]
    fn a_load_that_ends_early_has_no_count() {
        let monitor = Monitor::default();
        let ended = |planned: u64| {
            monitor.planned.store(planned, Relaxed);
            counted(&monitor, &|| true, [Duration::ZERO; 2], false, |_| ())
        };
        assert_eq!((ended(0), ended(1)), (None, None));
    }
}
