//! Sampling at intervals.

use quell_model::{Nanos, Wake};
use serde::{Deserialize, Serialize};

/// Time of the next sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Periodic {
    next: Nanos,
}

impl Periodic {
    /// Is it time? Then the next time is an interval later.
    #[must_use]
    pub fn is_due(&mut self, now: Nanos, interval: Nanos) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + interval;
        }
        is_due
    }

    /// Not before then.
    pub fn put_off(&mut self, until: Nanos) {
        self.next = until;
    }

    /// Time to wake up for it.
    #[must_use]
    pub fn wake(self) -> Wake {
        Wake::At(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_once_an_interval() {
        let mut look = Periodic::default();
        let due: Vec<bool> = [0, 5, 9, 10, 12, 25].map(|now| look.is_due(Nanos(now), Nanos(10))).into();
        assert_eq!(due, [true, false, false, true, false, true]);
        look.put_off(Nanos(50));
        assert!(!look.is_due(Nanos(40), Nanos(10)) && look.wake() == Wake::At(Nanos(50)));
    }
}
