//! How long what was asked for took.

use quell_model::Nanos;
use quell_report::stats::Histogram;

/// Latencies, and their exact sum beside the histogram of three digits.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    histogram: Histogram,
    sum: u128,
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: u64) {
        self.histogram.record(latency);
        self.sum += u128::from(latency);
    }

    pub(crate) fn clear(&mut self) {
        self.histogram.clear();
        self.sum = 0;
    }

    /// Adds all that others recorded.
    pub fn merge(&mut self, other: &Latencies) {
        self.histogram.merge(&other.histogram);
        self.sum += other.sum;
    }

    /// Every cell that counted something, in ascending order: its highest latency, and the count.
    pub fn cells(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.histogram.cells().map(|(ns, count)| (Nanos(ns), count))
    }

    /// How many were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.count()
    }

    /// The mean; zero when there are none.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        Nanos((self.sum / u128::from(self.count().max(1))) as u64)
    }

    /// The smallest latency that at least this share (0–1) does not exceed.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Nanos {
        Nanos(self.histogram.quantile(share))
    }

    /// The largest.
    #[must_use]
    pub fn max(&self) -> Nanos {
        Nanos(self.histogram.max())
    }
}
