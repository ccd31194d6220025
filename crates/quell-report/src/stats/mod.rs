//! Statistics of a run: histograms of durations, confidence intervals of their quantiles.

mod bootstrap;
mod histogram;
mod wasserstein;

pub use bootstrap::{Blocks, CONFIDENCE};
pub use histogram::Histogram;
pub use wasserstein::wasserstein;
