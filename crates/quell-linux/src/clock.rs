//! Times that have passed.

use quell_model::Nanos;
pub use quell_thread::clock::{cpu_time, now};

/// The last look at something: when, and the CPU time that it took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub at: Option<Nanos>,
    pub cost: Nanos,
}

impl Look {
    /// Due time of the next one such that looking takes no more than one in `share`; None: at once.
    pub fn next(self, interval: Nanos, share: u64) -> Option<Nanos> {
        Some(self.at? + interval.max(Nanos(self.cost.0.saturating_mul(share))))
    }
}
