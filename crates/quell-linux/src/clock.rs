//! Times that have passed.

use quell_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, the clock of hosts and views.
#[must_use]
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// CPU time of the calling thread: what something cost, whatever else ran meanwhile.
#[must_use]
pub fn cpu_time() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The last look at something: when, and the CPU time that it took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub at: Option<Nanos>,
    pub cost: Nanos,
}

impl Look {
    /// When the next one is due so that looking takes no more than one in `share`; None: at once.
    pub fn next(self, interval: Nanos, share: u64) -> Option<Nanos> {
        Some(self.at? + interval.max(Nanos(self.cost.0 * share)))
    }
}
