//! Quell's own kernel scheduler, by sched_ext: no kernel module, no kernel patch.
//!
//! CPUs belong to workloads. [`Grant`] loads the BPF program `grant`, which schedules every thread that is not real-time:
//! a CPU runs the threads of the workload that holds it. [`ScxHost`] is the host for policies that grant CPUs. What cannot
//! wait for a policy happens in the kernel at the event, by the rules of [`quell_model::rule`].
//!
//! - `bpf/rules.h`: the rules, in C; tested against their reference functions
//! - `bpf/state.h`: what is shared with the loader, which workload a thread belongs to
//! - `bpf/queues.h`: the workloads' queues; `bpf/holders.h`: who holds which CPU; `bpf/dispatch.h`: what a CPU runs next
//! - `bpf/grant.bpf.c`: the scheduler's operations
//! - `layout`: the shared memory; `program`: loading and commanding; `host`: the view and the plan
//!
//! When the loader dies the kernel's own scheduler takes over.

mod error;
mod host;
mod layout;
mod messages;
mod program;
#[cfg(test)]
mod rules_tests;

pub use error::ScxError;
pub use host::{Poll, ScxHost, ScxOptions, capabilities};
pub use program::{Grant, Holder, NAME, Slices, ready};
