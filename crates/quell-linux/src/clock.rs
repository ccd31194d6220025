//! Times that have passed.

use quell_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC.
pub(crate) fn now() -> Nanos {
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
