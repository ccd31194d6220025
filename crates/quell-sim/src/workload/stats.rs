//! What a workload achieved since the warm-up.

use hdrhistogram::Histogram;
use quell_model::Nanos;

use crate::contention::solve::Rates;

/// Latencies, with three significant digits, from 1 ns to an hour.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum: u128,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("constant bounds");
        Latencies { histogram, sum: 0 }
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: u64) {
        self.histogram.saturating_record(latency);
        self.sum += u128::from(latency);
    }

    pub(crate) fn clear(&mut self) {
        self.histogram.clear();
        self.sum = 0;
    }

    /// Adds all that others recorded.
    pub fn merge(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
        self.sum += other.sum;
    }

    /// Every cell that counted something, in ascending order: its highest latency, and the count.
    pub fn cells(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let cells = self.histogram.iter_recorded();
        cells.map(|cell| (Nanos(self.histogram.highest_equivalent(cell.value_iterated_to())), cell.count_at_value()))
    }

    /// How many were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean; zero when there are none.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        Nanos((self.sum / u128::from(self.count().max(1))) as u64)
    }

    /// The smallest latency that at least this share (0–1) does not exceed.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Nanos {
        Nanos(self.histogram.value_at_quantile(share))
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
    /// What its counters say; nothing where contention is not modelled.
    pub counted: Rates,
}
