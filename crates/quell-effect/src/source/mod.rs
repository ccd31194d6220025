//! What a service's latency, or else its waiting, is read from.

mod histogram;
mod probe;
mod waiting;

use std::time::Duration;

use quell_model::Selector;

pub use histogram::OwnHistogram;
pub use probe::{MOST_PER_SECOND, Probe};
pub use waiting::Waiting;

use crate::error::Result;
use crate::phase::{Measure, Slice};

/// The source that there is for a service.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// Its own histogram.
    Histogram(quell_scrape::Source),
    /// A probe.
    Probe {
        /// Of this URL.
        url: String,
        /// Requests per second.
        per_second: f64,
    },
    /// Neither: the queueing delay of the threads that these select.
    Waiting(Vec<Selector>),
}

impl Choice {
    /// Opens the source.
    ///
    /// # Errors
    /// If there is no such thing to measure.
    pub fn open(self) -> Result<Box<dyn Source>> {
        Ok(match self {
            Choice::Histogram(page) => Box::new(OwnHistogram::new(page)?),
            Choice::Probe { url, per_second } => Box::new(Probe::start(&url, per_second)?),
            Choice::Waiting(selectors) => Box::new(Waiting::of(selectors)?),
        })
    }
}

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

    /// Bounds of its buckets, ns, ascending; none where it has single values.
    fn edges(&self) -> Vec<u64> {
        Vec::new()
    }

    /// What the reader should know of it, a sentence each.
    fn caveats(&self) -> Vec<String> {
        Vec::new()
    }
}
