//! A simulated machine and Linux kernel: a host like any other, deterministic and fast.
//!
//! [`Sim`] is one machine with workloads in virtual time; [`SimHost`] is the same as a [`quell_model::Host`], on which
//! policies run unchanged. [`kernel`] schedules threads by Linux's rules, [`workload`] says what they do,
//! [`contention`] how they slow each other down, [`machine`] has the machines of the papers, [`scenario`] reads and runs experiments from files.
//!
//! Time is counted in nanoseconds and moves from one happening to the next, in the total order of time and sequence.
//! The same input gives the same output, byte for byte, on every machine: random numbers come from a published
//! generator with a stream for each purpose, and float functions from a portable library.

pub mod config;
pub mod contention;
pub mod experiment;
pub mod faulty;
mod gpu;
pub mod host;
pub mod kernel;
pub mod machine;
pub mod scenario;
pub mod vm;
pub mod workload;

mod arrivals;
mod chance;
mod domains;
mod error;
mod ids;
mod imbalance;
mod latencies;
mod lock;
mod masks;
mod math;
mod mechanisms;
mod reports;
mod service;
mod sim;
mod switching;
mod task;
mod timer;
mod timers;
mod trace;
mod tree;
mod wakers;
mod weight;

pub use config::{Costs, FairScheduler, IdleSearch, Interrupts, KernelConfig, Loads, RealTimeLimit};
pub use error::SimError;
pub use faulty::{Faults, Faulty};
pub use host::SimHost;
pub use kernel::{Counters, GroupId, Kernel, Partition, Stretch, TaskId};
pub use machine::Machine;
pub use mechanisms::{Like, Mechanism, Mechanisms};
pub use quell_model::Stream;
pub use sim::{Population, Sim};
pub use switching::Switching;
pub use vm::VmSpec;
pub use workload::WorkloadSpec;

/// The pages of docs/extend, whose code is compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/extend/policy.md")]
    struct Policy;
    #[doc = include_str!("../../../docs/extend/signal.md")]
    struct Signal;
    #[doc = include_str!("../../../docs/extend/knob.md")]
    struct Knob;
    #[doc = include_str!("../../../docs/extend/host.md")]
    struct Host;
}
