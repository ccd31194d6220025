//! Resources.

use std::collections::BTreeMap;

use prost::Message;

/// Resources of a container or pod.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxResources {
    /// Memory.
    #[prost(message, optional, tag = "1")]
    pub memory: Option<LinuxMemory>,
    /// CPUs.
    #[prost(message, optional, tag = "2")]
    pub cpu: Option<LinuxCpu>,
    /// Limits of huge pages, by size.
    #[prost(message, repeated, tag = "3")]
    pub hugepage_limits: Vec<HugepageLimit>,
    /// Class of block I/O.
    #[prost(message, optional, tag = "4")]
    pub blockio_class: Option<String>,
    /// Class of resctrl.
    #[prost(message, optional, tag = "5")]
    pub rdt_class: Option<String>,
    /// Files of cgroup v2 and what is written to them.
    #[prost(btree_map = "string, string", tag = "6")]
    pub unified: BTreeMap<String, String>,
    /// Rules of the devices controller.
    #[prost(message, repeated, tag = "7")]
    pub devices: Vec<LinuxDeviceCgroup>,
    /// Number of processes.
    #[prost(message, optional, tag = "8")]
    pub pids: Option<LinuxPids>,
}

impl LinuxResources {
    /// CPUs alone, by number, as in `0-3,8`. An empty list leaves the container's CPUs as they are: NRI has no way to clear them.
    pub fn on_cpus(cpus: impl Into<String>) -> LinuxResources {
        LinuxResources { cpu: Some(LinuxCpu { cpus: cpus.into(), ..LinuxCpu::default() }), ..LinuxResources::default() }
    }
}

/// The CPU controller and the CPU set.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxCpu {
    /// Weight: 1024 for each CPU requested, 2 for none.
    #[prost(message, optional, tag = "1")]
    pub shares: Option<u64>,
    /// Run time in a period, in microseconds; -1 for no limit.
    #[prost(message, optional, tag = "2")]
    pub quota: Option<i64>,
    /// The quota's period, in microseconds.
    #[prost(message, optional, tag = "3")]
    pub period: Option<u64>,
    /// Run time of real-time threads in their period, in microseconds (cgroup v1).
    #[prost(message, optional, tag = "4")]
    pub realtime_runtime: Option<i64>,
    /// Period of real-time threads, in microseconds (cgroup v1).
    #[prost(message, optional, tag = "5")]
    pub realtime_period: Option<u64>,
    /// CPUs, as in `0-3,8`; empty: not set.
    #[prost(string, tag = "6")]
    pub cpus: String,
    /// Memory nodes, as in `0-1`; empty: not set.
    #[prost(string, tag = "7")]
    pub mems: String,
}

/// The memory controller. Sizes are in bytes, -1 for no limit.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxMemory {
    /// Limit.
    #[prost(message, optional, tag = "1")]
    pub limit: Option<i64>,
    /// Soft limit.
    #[prost(message, optional, tag = "2")]
    pub reservation: Option<i64>,
    /// Limit of memory and swap.
    #[prost(message, optional, tag = "3")]
    pub swap: Option<i64>,
    /// Limit of the kernel's memory (cgroup v1).
    #[prost(message, optional, tag = "4")]
    pub kernel: Option<i64>,
    /// Limit of TCP buffers (cgroup v1).
    #[prost(message, optional, tag = "5")]
    pub kernel_tcp: Option<i64>,
    /// Swappiness, 0 to 100 (cgroup v1).
    #[prost(message, optional, tag = "6")]
    pub swappiness: Option<u64>,
    /// Whether the OOM killer is off (cgroup v1).
    #[prost(message, optional, tag = "7")]
    pub disable_oom_killer: Option<bool>,
    /// Whether children count for their parent (cgroup v1).
    #[prost(message, optional, tag = "8")]
    pub use_hierarchy: Option<bool>,
}

/// A limit of huge pages.
#[derive(Clone, PartialEq, Message)]
pub struct HugepageLimit {
    /// Size of a page, as in `2MB`.
    #[prost(string, tag = "1")]
    pub page_size: String,
    /// Limit, in bytes.
    #[prost(uint64, tag = "2")]
    pub limit: u64,
}

/// A limit of processes.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxPids {
    /// Largest number of processes; 0 or -1 for no limit.
    #[prost(int64, tag = "1")]
    pub limit: i64,
}

/// A rule of the devices controller.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxDeviceCgroup {
    /// Whether access is allowed.
    #[prost(bool, tag = "1")]
    pub allow: bool,
    /// `a`, `b` or `c`: all, block or character devices.
    #[prost(string, tag = "2")]
    pub r#type: String,
    /// Major number; `None` for all.
    #[prost(message, optional, tag = "3")]
    pub major: Option<i64>,
    /// Minor number; `None` for all.
    #[prost(message, optional, tag = "4")]
    pub minor: Option<i64>,
    /// Some of `r`, `w`, `m`.
    #[prost(string, tag = "5")]
    pub access: String,
}
