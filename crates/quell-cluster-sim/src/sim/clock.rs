//! What is to happen, in the total order of time and sequence.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quell_model::cluster::HostId;
use quell_model::{Nanos, WorkloadId};

/// Something that is to happen. A number distinguishes a workload's or a move's life from a later one in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tick {
    /// One more workload of this group comes.
    Arrival(u32),
    /// A workload ends.
    Departure(WorkloadId, u32),
    /// A workload's next phase begins.
    Phase(WorkloadId, u32),
    /// A host dies.
    Death(HostId),
    /// A host's reports stop.
    Silence(HostId),
    /// A round of a move's copying is over.
    Round(WorkloadId, u32),
    /// A move's last part has arrived.
    Landing(WorkloadId, u32),
    /// A move fails.
    Failure(WorkloadId, u32),
    /// A move's deadline.
    Deadline(WorkloadId, u32),
}

/// The clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    now: Nanos,
    sequence: u64,
    ticks: BinaryHeap<Reverse<(Nanos, u64, Tick)>>,
}

impl Clock {
    /// Time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// It happens at this time; what has the same time happens in the order of the calls.
    pub fn at(&mut self, time: Nanos, tick: Tick) {
        self.sequence += 1;
        self.ticks.push(Reverse((time.max(self.now), self.sequence, tick)));
    }

    /// It happens after this many seconds.
    pub fn after(&mut self, seconds: f64, tick: Tick) {
        self.at(self.now + nanos(seconds), tick);
    }

    /// The next that happens before `end`, or at it; time moves there, or to `end` if there is none.
    pub fn next(&mut self, end: Nanos) -> Option<Tick> {
        match self.ticks.peek() {
            Some(Reverse((at, _, tick))) if *at <= end => {
                let (at, tick) = (*at, *tick);
                self.ticks.pop();
                self.now = self.now.max(at);
                Some(tick)
            }
            _ => {
                self.now = self.now.max(end);
                None
            }
        }
    }

    /// Time of the next.
    #[must_use]
    pub fn soonest(&self) -> Option<Nanos> {
        self.ticks.peek().map(|Reverse((at, _, _))| *at)
    }
}

/// Seconds as a time; beyond what it can hold it is far away.
#[must_use]
pub fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds.clamp(0.0, 1e9) * 1e9 + 0.5) as u64)
}

/// A time in seconds.
#[must_use]
pub fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}
