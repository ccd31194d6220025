//! `machine.scheduler`, of configurations and scenarios.

use serde::{Deserialize, Serialize};

/// The scheduler in charge of the machine's CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Quell's scheduler if a policy grants single CPUs or keeps servers and this kernel has sched_ext, else Linux's.
    #[default]
    Auto,
    /// Linux's scheduler: CPUs are lent by affinity.
    Kernel,
    /// Quell's scheduler, by sched_ext.
    Quell,
}
