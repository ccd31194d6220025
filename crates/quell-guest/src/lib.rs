//! A real Linux kernel with sched_ext, on any machine, without KVM, whose latency numbers repeat.
//!
//! [`Lab::run`] boots a [`Machine`] under QEMU's emulation, runs a [`Job`] in it, and hands its output and exit status
//! back as if it had run here. With [`Clock::Lockstep`] the guest's time is a function of the instructions that it
//! executes, so that the host's load does not show in it.
//!
//! - `fetch`: kernel, QEMU and busybox from Debian's archive into the cache
//! - `image`: the initial file system, with a program and all that it loads
//! - `machine`: the machine to boot; QEMU's and the kernel's command lines
//! - `guest`: the scripts that run inside
//! - `lockstep`: the QEMU plugin that makes time repeatable
//! - `breakpoints`: the QEMU plugin that works around a fault of the emulation
//! - `counts`: instructions by function and CPU between two marks, by a third plugin
//! - `run`: starts the processes, passes the output on, reports failures
//! - `schedulers`: sched_ext schedulers of others, built into the cache
//! - `testing`: Rust tests that run inside the lab

mod breakpoints;
mod cache;
pub mod counts;
mod error;
mod fetch;
mod image;
mod lockstep;
mod machine;
mod plugin;
mod run;
pub mod schedulers;
pub mod testing;
mod tool;

pub use cache::Cache;
pub use error::{LabError, Result};
pub use fetch::{Busybox, Kernel, PREFERRED_KERNELS, Qemu, Virtiofsd};
#[doc(hidden)]
pub use inventory;
pub use machine::{Accelerator, Clock, Input, Lockstep, Machine, Root, Topology};
pub use run::{Ending, Job, Lab, Output, native};

/// Gets messages on long steps of the lab.
pub trait Progress: Sync {
    /// A step begins; `text` says which.
    fn step(&self, text: &str);
}

/// Reports nothing.
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _text: &str) {}
}

/// Reports progress on standard error, a line a step.
pub struct ToStderr;

impl Progress for ToStderr {
    fn step(&self, text: &str) {
        eprintln!("lab: {text}");
    }
}
