//! Statistics of a run: histograms of durations, confidence intervals of their quantiles.

mod bootstrap;
mod histogram;

pub use bootstrap::{Blocks, CONFIDENCE};
pub use histogram::Histogram;
