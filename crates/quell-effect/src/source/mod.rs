//! What a service's latency, or else its waiting, is read from.

mod histogram;
mod probe;
mod waiting;

use std::time::Duration;

pub use histogram::OwnHistogram;
pub use probe::{MOST_PER_SECOND, Probe};
pub use waiting::Waiting;

use crate::error::Result;
use crate::phase::{Measure, Slice};

/// Measures a service while it runs.
pub trait Source {
    /// What it measures.
    fn measure(&self) -> Measure;

    /// Time between two looks.
    fn every(&self) -> Duration;

    /// What was measured since the last look; None at the first, and where the service began to count anew.
    ///
    /// # Errors
    /// If it cannot be read now, or ([`crate::EffectError::is_final`]) never again.
    fn look(&mut self) -> Result<Option<Slice>>;

    /// Requests that have had no answer for longer than from look to look: for how long so far, ns, each with its count. A service
    /// that answers nothing is the slowest of all, not one without values.
    fn unanswered(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }

    /// Bounds of its buckets, ns, ascending; none where it has single values.
    fn edges(&self) -> Vec<u64> {
        Vec::new()
    }

    /// What the reader should know of it, a sentence each.
    fn caveats(&self) -> Vec<String> {
        Vec::new()
    }
}
