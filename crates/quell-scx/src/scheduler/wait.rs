//! Waits for the next step.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use quell_model::{Event, Nanos, Wake, WorkloadId};

use super::{Poll, Scx};
use crate::ScxError;

/// What is not reported, such as a cgroup that came, is found at the latest after this time. The rules do not wait for it.
const LONGEST: Nanos = Nanos(100_000_000);
/// Queues of best-effort work in line are reported this often: a CPU that is yielded goes to it without the loop, and programs whose
/// threads wake each other up form thousands a second.
const BEST_EFFORT_AGAIN: Nanos = Nanos(10_000_000);
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

    /// A queue that no rule serves may have been too short to act on, and it is not reported again: it is looked at when the
    /// policy asks for it, and as long as it stays after twice as long each time. None: there is no such queue.
    fn until_the_queue_is_looked_at_again(&mut self, asked: Nanos) -> Option<Nanos> {
        let waits = self.grant.waits_for_the_loop();
        self.queue_looks =
            if waits { asked.max(SHORTEST).max(self.queue_looks + self.queue_looks) } else { Nanos::ZERO };
        waits.then_some(self.queue_looks)
    }

    /// Sleeps until the scheduler reports something. What happened before it listened ends the sleep at once.
    fn sleep(&mut self, at_most: Nanos) -> Result<(), ScxError> {
        let calm = (self.seen.best_effort_at + BEST_EFFORT_AGAIN) - quell_linux::now();
        let is_calm = calm > Nanos::ZERO;
        let yields = self.grant.listen(is_calm);
        let mut reported = std::mem::take(&mut self.reported);
        self.collect(&mut reported);
        self.reported = reported;
        let wakes = |event: &Event| match *event {
            Event::Yielded(..) => yields,
            Event::QueueFormed(id) => self.is_below_its_limit(id) && (!is_calm || !self.is_best_effort_in_line(id)),
            _ => true,
        };
        let at_most = if is_calm { at_most.min(calm) } else { at_most };
        let waited = match self.has_to_fetch() || self.reported.iter().any(wakes) {
            true => Ok(()),
            false => self.grant.wait_for_news(Duration::from_nanos(at_most.0)),
        };
        self.grant.listen_no_more();
        waited
    }

    /// May it be granted one more CPU?
    fn is_below_its_limit(&self, id: WorkloadId) -> bool {
        let state = self.grant.workload(id);
        state.is_ok_and(|state| state.held.load(Relaxed) < state.limit.load(Relaxed))
    }

    /// Does a CPU that is yielded go to it without the loop, and is that soon enough?
    pub(super) fn is_best_effort_in_line(&self, id: WorkloadId) -> bool {
        let state = self.grant.workload(id);
        state.is_ok_and(|state| state.lc.load(Relaxed) == 0 && state.in_line.load(Relaxed) == 1)
    }
}
