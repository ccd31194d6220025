//! What a workload achieved since the warm-up.

use quell_model::Nanos;
use quell_report::stats::Histogram;

use crate::contention::solve::Rates;
use crate::switching::Switching;

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

/// What a workload achieved since the warm-up.
#[derive(Clone, Debug, Default)]
pub struct WorkloadStats {
    /// From arrival, release or job start to completion.
    pub latencies: Latencies,
    /// Requests that arrived.
    pub arrived: u64,
    /// Latencies above the SLO's bound.
    pub violations: u64,
    /// Periodic jobs that ended after their deadline.
    pub missed: u64,
    /// CPU time used, ns.
    pub run_time: u64,
    /// Time that its threads waited for a CPU, ns.
    pub run_delay: u64,
    /// How often its threads were switched and moved.
    pub switching: Switching,
    /// What its counters say; nothing where contention is not modelled.
    pub counted: Rates,
}
