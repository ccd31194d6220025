//! What a plug-in changes: a container that is being created, and containers that exist.

use std::collections::BTreeMap;

use prost::{Enumeration, Message};

use super::container::{
    Hooks, LinuxDevice, LinuxIoPriority, LinuxNamespace, LinuxNetDevice, LinuxRdt, LinuxScheduler, Mount, PosixRlimit,
};
use super::resources::LinuxResources;
use super::security::LinuxSeccomp;

/// Changes to a container that is being created. What is not set is left as the runtime has it.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerAdjustment {
    /// Annotations; `-` before a key removes it.
    #[prost(btree_map = "string, string", tag = "2")]
    pub annotations: BTreeMap<String, String>,
    /// Mounts.
    #[prost(message, repeated, tag = "3")]
    pub mounts: Vec<Mount>,
    /// Environment; `-` before a key removes it.
    #[prost(message, repeated, tag = "4")]
    pub env: Vec<KeyValue>,
    /// OCI hooks.
    #[prost(message, optional, tag = "5")]
    pub hooks: Option<Hooks>,
    /// What is particular to Linux.
    #[prost(message, optional, tag = "6")]
    pub linux: Option<LinuxContainerAdjustment>,
    /// Limits of setrlimit(2).
    #[prost(message, repeated, tag = "7")]
    pub rlimits: Vec<PosixRlimit>,
    /// Devices of the Container Device Interface.
    #[prost(message, repeated, tag = "8")]
    pub cdi_devices: Vec<CdiDevice>,
    /// Command line; empty: unchanged. An empty first word removes the runtime's.
    #[prost(string, repeated, tag = "9")]
    pub args: Vec<String>,
}

impl ContainerAdjustment {
    /// These resources alone.
    pub fn of_resources(resources: LinuxResources) -> ContainerAdjustment {
        let linux = LinuxContainerAdjustment { resources: Some(resources), ..LinuxContainerAdjustment::default() };
        ContainerAdjustment { linux: Some(linux), ..ContainerAdjustment::default() }
    }
}

/// Of an adjustment what is particular to Linux.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainerAdjustment {
    /// Devices.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<LinuxDevice>,
    /// Resources.
    #[prost(message, optional, tag = "2")]
    pub resources: Option<LinuxResources>,
    /// The container's cgroup.
    #[prost(string, tag = "3")]
    pub cgroups_path: String,
    /// Adjustment of the OOM score.
    #[prost(message, optional, tag = "4")]
    pub oom_score_adj: Option<i64>,
    /// I/O priority.
    #[prost(message, optional, tag = "5")]
    pub io_priority: Option<LinuxIoPriority>,
    /// Seccomp policy.
    #[prost(message, optional, tag = "6")]
    pub seccomp_policy: Option<LinuxSeccomp>,
    /// Namespaces.
    #[prost(message, repeated, tag = "7")]
    pub namespaces: Vec<LinuxNamespace>,
    /// Sysctls; `-` before a key removes it.
    #[prost(btree_map = "string, string", tag = "8")]
    pub sysctl: BTreeMap<String, String>,
    /// Network devices, by their name on the node; `-` before a name removes it.
    #[prost(btree_map = "string, message", tag = "9")]
    pub net_devices: BTreeMap<String, LinuxNetDevice>,
    /// Scheduling attributes.
    #[prost(message, optional, tag = "10")]
    pub scheduler: Option<LinuxScheduler>,
    /// resctrl.
    #[prost(message, optional, tag = "11")]
    pub rdt: Option<LinuxRdt>,
    /// Memory policy.
    #[prost(message, optional, tag = "12")]
    pub memory_policy: Option<LinuxMemoryPolicy>,
}

/// A memory policy of set_mempolicy(2).
#[derive(Clone, PartialEq, Message)]
pub struct LinuxMemoryPolicy {
    /// Mode.
    #[prost(enumeration = "MemoryPolicyMode", tag = "1")]
    pub mode: i32,
    /// Memory nodes, as in `0-1`.
    #[prost(string, tag = "2")]
    pub nodes: String,
    /// Flags.
    #[prost(enumeration = "MemoryPolicyFlag", repeated, tag = "3")]
    pub flags: Vec<i32>,
}

/// A mode of set_mempolicy(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum MemoryPolicyMode {
    /// MPOL_DEFAULT.
    Default = 0,
    /// MPOL_PREFERRED.
    Preferred = 1,
    /// MPOL_BIND.
    Bind = 2,
    /// MPOL_INTERLEAVE.
    Interleave = 3,
    /// MPOL_LOCAL.
    Local = 4,
    /// MPOL_PREFERRED_MANY.
    PreferredMany = 5,
    /// MPOL_WEIGHTED_INTERLEAVE.
    WeightedInterleave = 6,
}

/// A flag of set_mempolicy(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum MemoryPolicyFlag {
    /// MPOL_F_STATIC_NODES.
    StaticNodes = 0,
    /// MPOL_F_RELATIVE_NODES.
    RelativeNodes = 1,
    /// MPOL_F_NUMA_BALANCING.
    NumaBalancing = 2,
}

/// Changes to a container that exists. What is not set is left as it is.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerUpdate {
    /// The container's id.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// What is particular to Linux.
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxContainerUpdate>,
    /// Whether the request goes on when this update fails.
    #[prost(bool, tag = "3")]
    pub ignore_failure: bool,
}

impl ContainerUpdate {
    /// These resources for this container; the request fails if the update does.
    pub fn new(container_id: impl Into<String>, resources: LinuxResources) -> ContainerUpdate {
        ContainerUpdate {
            container_id: container_id.into(),
            linux: Some(LinuxContainerUpdate { resources: Some(resources) }),
            ignore_failure: false,
        }
    }
}

/// Of an update what is particular to Linux.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainerUpdate {
    /// Resources.
    #[prost(message, optional, tag = "1")]
    pub resources: Option<LinuxResources>,
}

/// A device of the Container Device Interface.
#[derive(Clone, PartialEq, Message)]
pub struct CdiDevice {
    /// Name, as in `vendor.example/class=device`.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A variable of the environment.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value.
    #[prost(string, tag = "2")]
    pub value: String,
}
