//! Pauses before a dead worker is restarted.

use quell_model::Nanos;

/// The first pause.
pub const FIRST: Nanos = Nanos::from_millis(100);
/// The longest pause.
pub const LONGEST: Nanos = Nanos::from_secs(30);
/// A worker that lived this long does not count as failing repeatedly.
pub const HEALTHY: Nanos = Nanos::from_secs(60);

/// Pauses that double from death to death, until a worker has lived long enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    deaths: u32,
}

impl Backoff {
    /// A worker died after it had lived for `lived`: the pause before the next one.
    pub fn died_after(&mut self, lived: Nanos) -> Nanos {
        if lived >= HEALTHY {
            self.deaths = 0;
        }
        let pause = Nanos(FIRST.0 << self.deaths.min(20)).min(LONGEST);
        self.deaths += 1;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_healthy_life() {
        let mut backoff = Backoff::default();
        let quick = Nanos::from_millis(1);
        assert_eq!(backoff.died_after(quick), FIRST);
        assert_eq!(backoff.died_after(quick), FIRST + FIRST);
        let last = (0..40).map(|_| backoff.died_after(quick)).last().unwrap();
        assert_eq!(last, LONGEST);
        assert_eq!(backoff.died_after(HEALTHY), FIRST);
    }
}
