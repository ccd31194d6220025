//! What a workload achieved since the warm-up.

use crate::contention::solve::Rates;
use crate::latencies::Latencies;
use crate::switching::Switching;

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
