//! `machine.scheduler`, of configurations and scenarios.

use serde::{Deserialize, Serialize};

/// Whose scheduler runs on the machine's CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Quell's own if a policy grants single CPUs or keeps servers and this kernel has sched_ext, else the kernel's.
    #[default]
    Auto,
    /// The kernel's: CPUs are granted by affinity.
    Kernel,
    /// Quell's own, by sched_ext.
    Quell,
}
