//! Waits for the next step.

use std::time::Duration;

use quell_model::{Event, Nanos, Wake};

use super::{Poll, Scx};
use crate::ScxError;

/// What nobody tells of, such as a cgroup that came, is found at the latest after this time. The rules do not wait for it.
const LONGEST: Nanos = Nanos(100_000_000);
/// A sleep that takes longer than this in any case.
const SHORTEST: Nanos = Nanos(1000);

impl Scx {
    pub(super) fn wait_for(&mut self, until: Wake) -> Result<(), ScxError> {
        match (self.options.poll, until) {
            (Poll::Dedicated, Wake::At(until)) => {
                while quell_linux::now() < until {
                    std::hint::spin_loop();
                }
                Ok(())
            }
            (Poll::Dedicated, Wake::OnEvent) => self.sleep(LONGEST),
            (Poll::Adaptive(look), Wake::At(until)) => {
                let asked = until - quell_linux::now();
                let at_most = asked.max(look).max(self.patience).min(LONGEST);
                self.patience = at_most + at_most;
                let soon = self.until_the_queue_is_looked_at_again(asked);
                self.sleep(soon.map_or(at_most, |soon| soon.min(at_most)))
            }
            (Poll::Adaptive(_), Wake::OnEvent) => self.sleep(LONGEST),
        }
    }

    /// A queue that no rule serves may have been too short to act on, and it is not told of again: it is looked at when the
    /// policy asks for it, and as long as it stays after twice as long each time. None: there is no such queue.
    fn until_the_queue_is_looked_at_again(&mut self, asked: Nanos) -> Option<Nanos> {
        let waits = self.grant.waits_for_the_loop();
        self.queue_looks =
            if waits { asked.max(SHORTEST).max(self.queue_looks + self.queue_looks) } else { Nanos::ZERO };
        waits.then_some(self.queue_looks)
    }

    /// Sleeps until the scheduler tells something. What happened before it listened ends the sleep at once.
    fn sleep(&mut self, at_most: Nanos) -> Result<(), ScxError> {
        let yields = self.grant.listen(true);
        let mut told = std::mem::take(&mut self.told);
        self.hear(&mut told);
        self.told = told;
        let wakes = |event: &Event| yields || !matches!(event, Event::Yielded(..));
        let waited = match self.has_to_fetch() || self.told.iter().any(wakes) {
            true => Ok(()),
            false => self.grant.wait_for_news(Duration::from_nanos(at_most.0)),
        };
        self.grant.listen(false);
        waited
    }
}
