use quell_model::{LeaseLimits, Nanos};
use serde::{Deserialize, Serialize};

/// The host's permissions from the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostOptions {
    /// Interval of the scans for new threads and forks: the latest time after its creation at which a thread gets its
    /// workload's values; longer where scans would take more than their share of a CPU. Zero: at every observation, at
    /// any cost.
    pub scan_interval: Nanos,
    /// Allows CPU partitions, which move work that Quell was not given away.
    pub partitions: bool,
    /// Allows the preemption mode, which concerns the whole machine.
    pub preemption_mode: bool,
    /// Allows the mask of resctrl's root group, which concerns all work that Quell was not given.
    pub cache: bool,
    /// Allows the GPU's frequency, which concerns all work that uses the GPU.
    pub gpu: bool,
    /// Allows the host to enable the cpu and cpuset controllers for the cgroups of workloads, in
    /// `cgroup.subtree_control` of the cgroups above them.
    pub enable_controllers: bool,
    /// Sets values on single threads even where cgroups have the controllers.
    pub threads_only: bool,
    /// Bounds of solo runs.
    pub leases: LeaseLimits,
    /// Make no write: the journal gets each, and the host continues as if it had been made.
    pub dry_run: bool,
    /// Lets Quell's own process be part of a workload.
    pub include_self: bool,
    /// The first observation is without queueing delays and what else is traced, which begins at the second one: the kernel verifies a
    /// program for it, and what is set first does not wait for that. Queueing delays are stale then.
    pub urgent: bool,
    /// A latency that was fed longer ago than this is stale.
    pub latency_stale_after: Nanos,
}

impl Default for HostOptions {
    /// Nothing machine-wide. A scan each 20 ms: well within the 100 ms in which a runaway is to be demoted.
    fn default() -> HostOptions {
        HostOptions {
            scan_interval: Nanos::from_millis(20),
            partitions: false,
            preemption_mode: false,
            cache: false,
            gpu: false,
            enable_controllers: false,
            threads_only: false,
            leases: LeaseLimits::default(),
            dry_run: false,
            urgent: false,
            include_self: false,
            latency_stale_after: Nanos::from_secs(3),
        }
    }
}
