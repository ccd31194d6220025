//! Progress of the simulation: for people at a terminal, and only if it takes long.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quell_model::Nanos;
use quell_report::human;

/// A simulation that takes no longer than this has no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar on standard error.
pub struct Progress {
    bar: ProgressBar,
    is_shown: AtomicBool,
    began: Instant,
    total: Nanos,
    runs: usize,
    passed: AtomicU64,
    ended: AtomicU64,
}

impl Progress {
    /// For `total` simulated time in `runs` runs.
    pub fn new(total: Nanos, runs: usize) -> Progress {
        let style = ProgressStyle::with_template("{wide_bar} {msg}").expect("constant template");
        let bar = ProgressBar::with_draw_target(Some(total.0), ProgressDrawTarget::hidden()).with_style(style);
        let (passed, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        // Without a terminal there is no bar to start.
        let is_shown = AtomicBool::new(!std::io::stderr().is_terminal());
        Progress { bar, is_shown, began: Instant::now(), total, runs, passed, ended }
    }

    /// `time` more was simulated.
    pub fn passed(&self, time: Nanos) {
        let passed = self.passed.fetch_add(time.0, Ordering::Relaxed) + time.0;
        let elapsed = self.began.elapsed();
        if elapsed >= PATIENCE && !self.is_shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if !self.bar.is_hidden() {
            self.bar.set_position(passed);
            self.bar.set_message(text(
                Nanos(passed),
                self.total,
                self.ended.load(Ordering::Relaxed),
                self.runs,
                elapsed,
            ));
        }
    }

    /// Another run has ended; so much of its time was not counted yet.
    pub fn run_ended(&self, rest: Nanos) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.passed(rest);
    }

    /// All of it is over.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn text(passed: Nanos, total: Nanos, ended: u64, runs: usize, elapsed: Duration) -> String {
    let rate = passed.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
    let left = total.as_secs_f64() - passed.as_secs_f64();
    let to_go = if rate > 0.0 { (left / rate).max(0.0).ceil() as u64 } else { 0 };
    let to_go = match (to_go / 3600, to_go / 60 % 60, to_go % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    };
    format!(
        "{} of {} simulated, {rate:.2} s/s, {ended} of {runs} runs done, {to_go} to go",
        human::nanoseconds(passed.0),
        human::nanoseconds(total.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_far_how_fast_and_how_long_still() {
        let text = |passed, total, seconds| {
            text(Nanos::from_secs(passed), Nanos::from_secs(total), 3, 8, Duration::from_secs(seconds))
        };
        assert_eq!(text(10, 40, 5), "10.0 s of 40.0 s simulated, 2.00 s/s, 3 of 8 runs done, 15 s to go");
        assert!(text(10, 410, 5).ends_with("3 min 20 s to go"), "{}", text(10, 410, 5));
        assert!(text(1, 401, 20).ends_with("2 h 13 min to go"), "{}", text(1, 401, 20));
        assert!(text(0, 40, 5).contains("0.00 s/s"));
    }
}
