//! Statistics of a run: histograms, confidence intervals, time taken away by the hypervisor.

mod bootstrap;
mod histogram;
pub mod steal;

pub use bootstrap::{Blocks, CONFIDENCE, RESAMPLES};
pub use histogram::Histogram;
