//! What runtime and plug-in say to each other: plain data, with NRI's names.
//!
//! The numbers are those of NRI's `api.proto`, which only grows: a field that one side does not know is skipped. Values that NRI wraps
//! (`OptionalInt64` and the like) are an [`Option`] of the value here: `None` is *not set*, which is not the same as zero.

mod adjustment;
mod container;
mod pod;
mod resources;
mod security;
pub(crate) mod service;

pub use adjustment::{
    CdiDevice, ContainerAdjustment, ContainerUpdate, KeyValue, LinuxContainerAdjustment, LinuxContainerUpdate,
    LinuxMemoryPolicy, MemoryPolicyFlag, MemoryPolicyMode,
};
pub use container::{
    Container, ContainerState, Hook, Hooks, Image, IoPriorityClass, LinuxContainer, LinuxDevice, LinuxIoPriority,
    LinuxNamespace, LinuxNetDevice, LinuxRdt, LinuxScheduler, Mount, PosixRlimit, RepeatedString, SchedulerFlag,
    SchedulerPolicy, User,
};
pub use pod::{LinuxPodSandbox, PodSandbox};
pub use resources::{HugepageLimit, LinuxCpu, LinuxDeviceCgroup, LinuxMemory, LinuxPids, LinuxResources};
pub use security::{LinuxSeccomp, LinuxSeccompArg, LinuxSyscall, SecurityProfile, SecurityProfileType};
pub use service::{
    Configuration, FailurePolicy, FieldOwners, FieldOwnersOfCompound, OwningPlugins, PluginInstance, Validation,
};
