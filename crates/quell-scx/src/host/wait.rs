//! Waits for the next step.

use std::time::Duration;

use quell_model::{Event, Nanos, Wake};

use super::{Poll, ScxHost};
use crate::ScxError;

/// What nobody tells of, such as a cgroup that came, is found at the latest after this time. The rules do not wait for it.
const LONGEST: Nanos = Nanos(100_000_000);

impl ScxHost {
    pub(super) fn wait_for(&mut self, until: Wake) -> Result<(), ScxError> {
        match (self.options.poll, until) {
            (Poll::Dedicated, Wake::At(until)) => {
                while self.linux.now() < until {
                    std::hint::spin_loop();
                }
                Ok(())
            }
            (Poll::Dedicated, Wake::OnEvent) => self.sleep(LONGEST),
            (Poll::Adaptive(look), Wake::At(until)) => {
                let at_most = (until - self.linux.now()).max(look).max(self.patience).min(LONGEST);
                self.patience = at_most + at_most;
                self.sleep(at_most)
            }
            (Poll::Adaptive(_), Wake::OnEvent) => self.sleep(LONGEST),
        }
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
