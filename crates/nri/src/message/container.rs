//! Containers.

use std::collections::BTreeMap;

use prost::{Enumeration, Message};

use super::adjustment::CdiDevice;
use super::resources::LinuxResources;
use super::security::{LinuxSeccomp, SecurityProfile};

/// A container.
#[derive(Clone, PartialEq, Message)]
pub struct Container {
    /// The runtime's id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Id of the sandbox that it is in.
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    /// The container's name in its pod.
    #[prost(string, tag = "3")]
    pub name: String,
    /// State, a [`ContainerState`]: `state()` reads it.
    #[prost(enumeration = "ContainerState", tag = "4")]
    pub state: i32,
    /// The container's labels.
    #[prost(btree_map = "string, string", tag = "5")]
    pub labels: BTreeMap<String, String>,
    /// The container's annotations.
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
    /// Command line.
    #[prost(string, repeated, tag = "7")]
    pub args: Vec<String>,
    /// Environment, as `NAME=value`.
    #[prost(string, repeated, tag = "8")]
    pub env: Vec<String>,
    /// Mounts.
    #[prost(message, repeated, tag = "9")]
    pub mounts: Vec<Mount>,
    /// OCI hooks.
    #[prost(message, optional, tag = "10")]
    pub hooks: Option<Hooks>,
    /// What is particular to Linux.
    #[prost(message, optional, tag = "11")]
    pub linux: Option<LinuxContainer>,
    /// The container's first process; 0 before it starts.
    #[prost(uint32, tag = "12")]
    pub pid: u32,
    /// Limits of setrlimit(2).
    #[prost(message, repeated, tag = "13")]
    pub rlimits: Vec<PosixRlimit>,
    /// Time of creation, in nanoseconds since 1970; 0 if unknown.
    #[prost(int64, tag = "14")]
    pub created_at: i64,
    /// Time of start, in nanoseconds since 1970; 0 if unknown.
    #[prost(int64, tag = "15")]
    pub started_at: i64,
    /// Time of end, in nanoseconds since 1970; 0 if unknown.
    #[prost(int64, tag = "16")]
    pub finished_at: i64,
    /// Exit status.
    #[prost(int32, tag = "17")]
    pub exit_code: i32,
    /// Why it is in this state, in one word.
    #[prost(string, tag = "18")]
    pub status_reason: String,
    /// Why it is in this state, for people.
    #[prost(string, tag = "19")]
    pub status_message: String,
    /// Devices of the Container Device Interface.
    #[prost(message, repeated, tag = "20")]
    pub cdi_devices: Vec<CdiDevice>,
    /// User and groups.
    #[prost(message, optional, tag = "21")]
    pub user: Option<User>,
    /// Image.
    #[prost(message, optional, tag = "22")]
    pub image: Option<Image>,
}

/// A container's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum ContainerState {
    /// Not known.
    Unknown = 0,
    /// Created, not started.
    Created = 1,
    /// Paused.
    Paused = 2,
    /// Running.
    Running = 3,
    /// Stopped.
    Stopped = 4,
}

/// An image.
#[derive(Clone, PartialEq, Message)]
pub struct Image {
    /// Reference, as in `registry.example/name:tag`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Digest of the index or manifest.
    #[prost(string, tag = "2")]
    pub digest: String,
    /// Digest of the image's configuration.
    #[prost(string, tag = "3")]
    pub config_digest: String,
}

/// User and groups of a container.
#[derive(Clone, PartialEq, Message)]
pub struct User {
    /// User.
    #[prost(uint32, tag = "1")]
    pub uid: u32,
    /// Group.
    #[prost(uint32, tag = "2")]
    pub gid: u32,
    /// Further groups.
    #[prost(uint32, repeated, tag = "3")]
    pub additional_gids: Vec<u32>,
}

/// A mount.
#[derive(Clone, PartialEq, Message)]
pub struct Mount {
    /// Path in the container. In an adjustment `-` before it removes the mount.
    #[prost(string, tag = "1")]
    pub destination: String,
    /// Filesystem, or `bind`.
    #[prost(string, tag = "2")]
    pub r#type: String,
    /// Path on the node.
    #[prost(string, tag = "3")]
    pub source: String,
    /// Options.
    #[prost(string, repeated, tag = "4")]
    pub options: Vec<String>,
}

/// OCI hooks, by the time at which they run.
#[derive(Clone, PartialEq, Message)]
pub struct Hooks {
    /// Before start (deprecated in OCI).
    #[prost(message, repeated, tag = "1")]
    pub prestart: Vec<Hook>,
    /// After the namespaces are there.
    #[prost(message, repeated, tag = "2")]
    pub create_runtime: Vec<Hook>,
    /// Before the root is pivoted.
    #[prost(message, repeated, tag = "3")]
    pub create_container: Vec<Hook>,
    /// In the container, before its command.
    #[prost(message, repeated, tag = "4")]
    pub start_container: Vec<Hook>,
    /// After start.
    #[prost(message, repeated, tag = "5")]
    pub poststart: Vec<Hook>,
    /// After the end.
    #[prost(message, repeated, tag = "6")]
    pub poststop: Vec<Hook>,
}

/// An OCI hook.
#[derive(Clone, PartialEq, Message)]
pub struct Hook {
    /// Program.
    #[prost(string, tag = "1")]
    pub path: String,
    /// Its command line.
    #[prost(string, repeated, tag = "2")]
    pub args: Vec<String>,
    /// Its environment.
    #[prost(string, repeated, tag = "3")]
    pub env: Vec<String>,
    /// Seconds after which it is ended.
    #[prost(message, optional, tag = "4")]
    pub timeout: Option<i64>,
}

/// Of a container what is particular to Linux.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainer {
    /// Namespaces.
    #[prost(message, repeated, tag = "1")]
    pub namespaces: Vec<LinuxNamespace>,
    /// Devices.
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<LinuxDevice>,
    /// Resources.
    #[prost(message, optional, tag = "3")]
    pub resources: Option<LinuxResources>,
    /// Adjustment of the OOM score.
    #[prost(message, optional, tag = "4")]
    pub oom_score_adj: Option<i64>,
    /// The container's cgroup: a path, or `slice:prefix:name` where systemd is the cgroup driver.
    #[prost(string, tag = "5")]
    pub cgroups_path: String,
    /// I/O priority.
    #[prost(message, optional, tag = "6")]
    pub io_priority: Option<LinuxIoPriority>,
    /// Seccomp profile.
    #[prost(message, optional, tag = "7")]
    pub seccomp_profile: Option<SecurityProfile>,
    /// Seccomp policy.
    #[prost(message, optional, tag = "8")]
    pub seccomp_policy: Option<LinuxSeccomp>,
    /// Sysctls.
    #[prost(btree_map = "string, string", tag = "9")]
    pub sysctl: BTreeMap<String, String>,
    /// Network devices moved into the container, by their name on the node.
    #[prost(btree_map = "string, message", tag = "10")]
    pub net_devices: BTreeMap<String, LinuxNetDevice>,
    /// Scheduling attributes.
    #[prost(message, optional, tag = "11")]
    pub scheduler: Option<LinuxScheduler>,
    /// resctrl.
    #[prost(message, optional, tag = "12")]
    pub rdt: Option<LinuxRdt>,
}

/// A namespace.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxNamespace {
    /// Kind, as in `network`. In an adjustment `-` before it removes it.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// File of the namespace; empty: a new one.
    #[prost(string, tag = "2")]
    pub path: String,
}

/// A device.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxDevice {
    /// Path in the container. In an adjustment `-` before it removes the device.
    #[prost(string, tag = "1")]
    pub path: String,
    /// `b`, `c`, `u` or `p`.
    #[prost(string, tag = "2")]
    pub r#type: String,
    /// Major number.
    #[prost(int64, tag = "3")]
    pub major: i64,
    /// Minor number.
    #[prost(int64, tag = "4")]
    pub minor: i64,
    /// Permissions of the file.
    #[prost(message, optional, tag = "5")]
    pub file_mode: Option<u32>,
    /// Its owner.
    #[prost(message, optional, tag = "6")]
    pub uid: Option<u32>,
    /// Its group.
    #[prost(message, optional, tag = "7")]
    pub gid: Option<u32>,
}

/// A network device.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxNetDevice {
    /// Name in the container.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A limit of setrlimit(2).
#[derive(Clone, PartialEq, Message)]
pub struct PosixRlimit {
    /// Name, as in `RLIMIT_NOFILE`.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Hard limit.
    #[prost(uint64, tag = "2")]
    pub hard: u64,
    /// Soft limit.
    #[prost(uint64, tag = "3")]
    pub soft: u64,
}

/// I/O priority.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxIoPriority {
    /// Class.
    #[prost(enumeration = "IoPriorityClass", tag = "1")]
    pub class: i32,
    /// Level within the class.
    #[prost(int32, tag = "2")]
    pub priority: i32,
}

/// Class of an I/O priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum IoPriorityClass {
    /// None.
    None = 0,
    /// Real time.
    Rt = 1,
    /// Best effort.
    Be = 2,
    /// Idle.
    Idle = 3,
}

/// Scheduling attributes of sched_setattr(2).
#[derive(Clone, PartialEq, Message)]
pub struct LinuxScheduler {
    /// Policy.
    #[prost(enumeration = "SchedulerPolicy", tag = "1")]
    pub policy: i32,
    /// Nice value.
    #[prost(int32, tag = "2")]
    pub nice: i32,
    /// Real-time priority.
    #[prost(int32, tag = "3")]
    pub priority: i32,
    /// Flags.
    #[prost(enumeration = "SchedulerFlag", repeated, tag = "4")]
    pub flags: Vec<i32>,
    /// Run time of SCHED_DEADLINE, in nanoseconds.
    #[prost(uint64, tag = "5")]
    pub runtime: u64,
    /// Deadline, in nanoseconds.
    #[prost(uint64, tag = "6")]
    pub deadline: u64,
    /// Period, in nanoseconds.
    #[prost(uint64, tag = "7")]
    pub period: u64,
}

/// A scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum SchedulerPolicy {
    /// Not set.
    None = 0,
    /// SCHED_OTHER.
    Other = 1,
    /// SCHED_FIFO.
    Fifo = 2,
    /// SCHED_RR.
    Rr = 3,
    /// SCHED_BATCH.
    Batch = 4,
    /// SCHED_ISO.
    Iso = 5,
    /// SCHED_IDLE.
    Idle = 6,
    /// SCHED_DEADLINE.
    Deadline = 7,
}

/// A flag of sched_setattr(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum SchedulerFlag {
    /// SCHED_FLAG_RESET_ON_FORK.
    ResetOnFork = 0,
    /// SCHED_FLAG_RECLAIM.
    Reclaim = 1,
    /// SCHED_FLAG_DL_OVERRUN.
    DlOverrun = 2,
    /// SCHED_FLAG_KEEP_POLICY.
    KeepPolicy = 3,
    /// SCHED_FLAG_KEEP_PARAMS.
    KeepParams = 4,
    /// SCHED_FLAG_UTIL_CLAMP_MIN.
    UtilClampMin = 5,
    /// SCHED_FLAG_UTIL_CLAMP_MAX.
    UtilClampMax = 6,
}

/// resctrl.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxRdt {
    /// Group.
    #[prost(message, optional, tag = "1")]
    pub clos_id: Option<String>,
    /// Schemata lines.
    #[prost(message, optional, tag = "2")]
    pub schemata: Option<RepeatedString>,
    /// Whether a monitoring group is made.
    #[prost(message, optional, tag = "3")]
    pub enable_monitoring: Option<bool>,
    /// In an adjustment: remove what was set.
    #[prost(bool, tag = "4")]
    pub remove: bool,
}

/// A list that can be unset as well as empty.
#[derive(Clone, PartialEq, Message)]
pub struct RepeatedString {
    /// Its elements.
    #[prost(string, repeated, tag = "1")]
    pub value: Vec<String>,
}
