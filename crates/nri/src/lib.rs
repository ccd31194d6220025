//! Plug-ins for the [Node Resource Interface](https://github.com/containerd/nri) (NRI) of containerd and CRI-O.
//!
//! A plug-in is asked before a container is created or updated, may change its CPUs, memory nodes, environment, mounts and more, or
//! refuse it with a reason that `kubectl describe pod` shows, and is notified of every start and end. Implement [`Plugin`], connect a
//! [`Stub`], [`run`](Stub::run) it:
//!
//! ```no_run
//! use nri::{Answer, Container, Creation, Event, Events, PodSandbox, Registration, Stub};
//!
//! struct Pin;
//!
//! impl nri::Plugin for Pin {
//!     fn configure(&mut self, _: nri::Configuration) -> Answer<Events> {
//!         Ok(Events::of(&[Event::CreateContainer]))
//!     }
//!
//!     fn create_container(&mut self, pod: PodSandbox, _: Container) -> Answer<Creation> {
//!         match pod.annotations.get("example.org/cpus") {
//!             Some(cpus) if cpus.is_empty() => Err("example.org/cpus: name CPUs, as in 0-3".into()),
//!             Some(cpus) => Ok(Creation::on_cpus(cpus)),
//!             None => Ok(Creation::default()),
//!         }
//!     }
//! }
//!
//! let registration = Registration::new("pin", "10")?;
//! let ended = Stub::connect(nri::DEFAULT_SOCKET, registration)?.run(&mut Pin)?;
//! println!("{ended}");
//! # Ok::<(), nri::Error>(())
//! ```
//!
//! # Threads
//! Two: one reads the connection, and the thread that calls [`Stub::run`] calls the plug-in, one request at a time, in the order of
//! arrival. There is no async runtime. [`Runtime`] sends updates that the runtime did not ask for, from any other thread.
//!
//! # Limits
//! A runtime that is broken or hostile costs bounded memory and time: a message has 4 MiB at most and 64 MiB decoded, at most 32 requests
//! and 16 MiB wait for the plug-in, a write takes two seconds at most. Beyond that the connection ends with an [`Error`].
//!
//! # Reconnecting
//! [`Stub::run`] returns when the runtime has gone. To come back is the caller's: connect again, and reconcile at
//! [`Plugin::synchronize`]. [`Backoff`] says how long to wait.

mod backoff;
mod dispatch;
mod ended;
mod error;
mod events;
#[cfg(feature = "fake")]
mod fake;
mod link;
mod message;
mod plugin;
mod queue;
mod registration;
mod runtime;
mod stub;
mod wire;

pub use backoff::Backoff;
pub use ended::Ended;
pub use error::Error;
pub use events::{Event, Events};
#[cfg(feature = "fake")]
pub use fake::{FakeConnection, FakeRuntime};
pub use message::{
    CdiDevice, Configuration, Container, ContainerAdjustment, ContainerState, ContainerUpdate, FailurePolicy,
    FieldOwners, FieldOwnersOfCompound, Hook, Hooks, HugepageLimit, Image, IoPriorityClass, KeyValue, LinuxContainer,
    LinuxContainerAdjustment, LinuxContainerUpdate, LinuxCpu, LinuxDevice, LinuxDeviceCgroup, LinuxIoPriority,
    LinuxMemory, LinuxMemoryPolicy, LinuxNamespace, LinuxNetDevice, LinuxPids, LinuxPodSandbox, LinuxRdt,
    LinuxResources, LinuxScheduler, LinuxSeccomp, LinuxSeccompArg, LinuxSyscall, MemoryPolicyFlag, MemoryPolicyMode,
    Mount, OwningPlugins, PluginInstance, PodSandbox, PosixRlimit, RepeatedString, SchedulerFlag, SchedulerPolicy,
    SecurityProfile, SecurityProfileType, User, Validation,
};
pub use plugin::{Answer, Creation, Late, Plugin, Refusal};
pub use registration::Registration;
pub use runtime::{Peer, Runtime};
pub use stub::Stub;

/// The socket on which containerd and CRI-O listen for plug-ins unless configured otherwise.
pub const DEFAULT_SOCKET: &str = "/var/run/nri/nri.sock";

/// The version of NRI whose messages this crate has.
pub const NRI_VERSION: &str = "v0.12.5";

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
