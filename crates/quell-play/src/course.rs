//! The times of a run.

use quell_model::Nanos;

/// When a scene is played, in CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Work begins.
    pub begin: Nanos,
    /// Requests that arrive from now on count.
    pub from: Nanos,
    /// Work ends.
    pub end: Nanos,
}

impl Course {
    /// Does a request count that arrived then?
    pub(crate) fn counts(&self, arrived: Nanos) -> bool {
        arrived >= self.from && arrived < self.end
    }
}
