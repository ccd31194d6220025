//! A refusal that repeats: said once, then counted, and what was refused is tried less and less often.

use quell_model::Nanos;

/// The first retry comes after this time, each later one after twice the time, up to the longest.
const FIRST: Nanos = Nanos::from_secs(1);
const LONGEST: Nanos = Nanos::from_secs(60);

/// What is refused again and again.
#[derive(Debug, Default)]
pub(super) struct Again {
    why: String,
    times: u64,
    wait: Nanos,
    at: Nanos,
}

impl Again {
    /// Is it time to try it?
    pub fn is_due(&self, now: Nanos) -> bool {
        now >= self.at
    }

    /// It was refused: says so if the reason is a new one.
    pub fn refused(&mut self, what: &'static str, why: &dyn std::fmt::Display, now: Nanos) {
        let why = why.to_string();
        if self.why != why {
            self.over(what);
            tracing::warn!(%why, "{what}; retrying with increasing pauses");
            self.why = why;
        }
        self.times += 1;
        self.wait = (self.wait + self.wait).clamp(FIRST, LONGEST);
        self.at = now + self.wait;
    }

    /// It worked, or nothing is to be done any more: says how often it was refused.
    pub fn over(&mut self, what: &'static str) {
        if self.times > 1 {
            tracing::info!(why = %self.why, times = self.times, "{what}: over");
        }
        if self.times > 0 {
            *self = Again::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_less_and_less_often_until_it_works() {
        let mut again = Again::default();
        let mut now = Nanos::ZERO;
        for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert!(again.is_due(now));
            again.refused("it could not be", &"EBUSY", now);
            assert!(!again.is_due(now + Nanos::from_secs(wait) - Nanos(1)), "{wait}");
            now += Nanos::from_secs(wait);
        }
        assert_eq!(again.times, 8);
        again.over("it could not be");
        again.refused("it could not be", &"EBUSY", now);
        assert_eq!((again.times, again.at), (1, now + FIRST));
    }
}
