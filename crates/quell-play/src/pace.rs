//! CPU work of a given length.

use std::hint::black_box;

use quell_model::Nanos;
use quell_thread::clock;
use serde::{Deserialize, Serialize};

/// How fast this machine's CPUs are: steps of the work a microsecond of CPU time.
///
/// Work is a number of steps, so that its CPU time does not depend on what interrupts it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pace(f64);

/// A measurement: long against the clock's resolution, short against a tick.
const STEPS: u64 = 100_000;
/// The fastest of these counts: all others were disturbed.
const TRIES: u32 = 60;

impl Pace {
    /// Measures it: some 10 to 50 ms of CPU time.
    #[must_use]
    pub fn measured() -> Pace {
        let once = |_| {
            let before = clock::cpu_time();
            work(STEPS);
            (clock::cpu_time() - before).0.max(1)
        };
        let fastest = (0..TRIES).map(once).min().unwrap_or(1);
        Pace(STEPS as f64 * 1e3 / fastest as f64)
    }

    /// Works for so much CPU time.
    pub fn work(self, time: Nanos) {
        work(self.steps(time));
    }

    /// Works for so much CPU time, or until CLOCK_MONOTONIC shows `until`; says what is left. It is looked at every
    /// [`Pace::LOOK`].
    #[must_use]
    pub fn work_until(self, time: Nanos, until: Nanos) -> Nanos {
        let mut left = time;
        while left > Nanos::ZERO && clock::now() < until {
            let now = left.min(Pace::LOOK);
            self.work(now);
            left = left - now;
        }
        left
    }

    /// How often [`Pace::work_until`] looks at the clock.
    pub const LOOK: Nanos = Nanos::from_micros(20);

    fn steps(self, time: Nanos) -> u64 {
        (time.0 as f64 * self.0 / 1e3).round() as u64
    }
}

fn work(steps: u64) {
    let mut state = 1u64;
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state = black_box(state ^ (state << 17));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_the_cpu_time_that_it_is_asked_for() {
        let pace = Pace::measured();
        let took = |time: Nanos| {
            let before = clock::cpu_time();
            pace.work(time);
            (clock::cpu_time() - before).0 as f64 / time.0 as f64
        };
        // The least of many: a busy machine's CPUs are slower now and then.
        let least = (0..50).map(|_| took(Nanos::from_millis(1))).fold(f64::INFINITY, f64::min);
        assert!((0.5..2.0).contains(&least), "{least} times as long");
    }

    #[test]
    fn work_that_is_interrupted_goes_on_with_what_is_left() {
        let pace = Pace::measured();
        let left = pace.work_until(Nanos::from_secs(1000), clock::now() + Nanos::from_millis(5));
        assert!(left > Nanos::from_secs(990) && left < Nanos::from_secs(1000), "{left}");
        assert_eq!(pace.work_until(Nanos::from_micros(50), Nanos::MAX), Nanos::ZERO);
    }
}
