//! Seccomp and security profiles.

use prost::{Enumeration, Message};

/// A security profile.
#[derive(Clone, PartialEq, Message)]
pub struct SecurityProfile {
    /// Where it comes from.
    #[prost(enumeration = "SecurityProfileType", tag = "1")]
    pub profile_type: i32,
    /// A profile on the node.
    #[prost(string, tag = "2")]
    pub localhost_ref: String,
}

/// Where a security profile comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum SecurityProfileType {
    /// The runtime's default.
    RuntimeDefault = 0,
    /// No profile.
    Unconfined = 1,
    /// A file on the node.
    Localhost = 2,
}

/// A seccomp policy, as the OCI runtime specification has it.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxSeccomp {
    /// Action for every other system call, as in `SCMP_ACT_ERRNO`.
    #[prost(string, tag = "1")]
    pub default_action: String,
    /// Its error number.
    #[prost(message, optional, tag = "2")]
    pub default_errno: Option<u32>,
    /// Architectures, as in `SCMP_ARCH_X86_64`.
    #[prost(string, repeated, tag = "3")]
    pub architectures: Vec<String>,
    /// Flags of seccomp(2).
    #[prost(string, repeated, tag = "4")]
    pub flags: Vec<String>,
    /// Socket of a user-space listener.
    #[prost(string, tag = "5")]
    pub listener_path: String,
    /// What the listener gets beside the descriptor.
    #[prost(string, tag = "6")]
    pub listener_metadata: String,
    /// Rules.
    #[prost(message, repeated, tag = "7")]
    pub syscalls: Vec<LinuxSyscall>,
}

/// A rule of seccomp.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxSyscall {
    /// System calls.
    #[prost(string, repeated, tag = "1")]
    pub names: Vec<String>,
    /// Action.
    #[prost(string, tag = "2")]
    pub action: String,
    /// Its error number.
    #[prost(message, optional, tag = "3")]
    pub errno_ret: Option<u32>,
    /// Conditions on the arguments.
    #[prost(message, repeated, tag = "4")]
    pub args: Vec<LinuxSeccompArg>,
}

/// A condition on an argument of a system call.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxSeccompArg {
    /// Number of the argument, from 0.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// Value.
    #[prost(uint64, tag = "2")]
    pub value: u64,
    /// Second value, for masks.
    #[prost(uint64, tag = "3")]
    pub value_two: u64,
    /// Comparison, as in `SCMP_CMP_EQ`.
    #[prost(string, tag = "4")]
    pub op: String,
}
