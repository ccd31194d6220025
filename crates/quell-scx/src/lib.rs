//! Quell's own kernel scheduler, by sched_ext: no kernel module, no kernel patch.
//!
//! CPUs belong to workloads. [`Grant`] loads the BPF program `grant`, which schedules every thread that is not real-time:
//! a CPU runs the threads of the workload that holds it. [`Scx`] is it as the
//! Linux host's scheduler, for policies that grant CPUs. What cannot
//! wait for a policy happens in the kernel at the event, by the rules of [`quell_model::rule`].
//!
//! - `bpf/rules.h`: the rules, in C; tested against their reference functions in `quell-scx-rules`
//! - `bpf/sets.h`: sets of CPUs and slots; `bpf/kinds.h`, `bpf/waiting.h`: which are kept; `bpf/look.h`: how a CPU is found in them
//! - `bpf/state.h`: what is shared with the loader, which workload a thread belongs to; `bpf/task.h`: pointers of threads
//! - `bpf/queues.h`: the workloads' queues; `bpf/bound.h`: those of bound threads; `bpf/groups.h`: shares in the tree of cgroups; `bpf/quota.h`: cpu.max
//! - `bpf/together.h`: workloads that hold CPUs as one; `bpf/reweigh.h`: their threads' weights and latencies;
//!   `bpf/overtake.h`: a wake-up takes the CPU of one that is far ahead
//! - `bpf/budget.h`: a server's budget; `bpf/servers.h`, `bpf/serve.h`: servers and their threads
//! - `bpf/holders.h`: who holds which CPU; `bpf/seek.h`: a waiting thread looks for one; `bpf/send.h`: it is put there;
//!   `bpf/dispatch.h`: what a CPU runs next; `bpf/starving.h`: who waited for too long
//! - `bpf/patrol.h`: what happens by the clock; `bpf/regroup.h`: threads go to another queue; `bpf/offline.h`: a CPU goes; `bpf/cookies.h`: core scheduling;
//!   `bpf/passage.h`: who stopped inside the kernel goes on; `bpf/requests.h`: the request clock; `bpf/unread.h`: unread
//!   data; `bpf/stuck.h`: who waits behind real-time
//!   threads; `bpf/counts.h`: decisions, counted
//! - `bpf/grant.bpf.c`: the scheduler's operations
//! - `kernel`, `forms`: can it run here; `layout` and `beside`: the shared memory; `program`: loading (`verified`), what the kernel holds then (`descriptors`), and commanding; `slots`: workloads come and go; `sets`:
//!   sets of them; `news`: who waits, and the loader is woken;
//!   `inspect`: what it says of itself; `scheduler`: the view and the plan
//!
//! When the loader dies the kernel's own scheduler takes over.

mod beside;
mod error;
mod forms;
mod inspect;
mod kernel;
mod kinds;
#[doc(hidden)]
pub mod layout;
mod messages;
mod news;
mod program;
mod requests;
mod scheduler;
mod servers;
mod sets;
mod slots;
mod sockets;
mod together;

pub use error::ScxError;
pub use forms::Unknown;
pub use inspect::{Decisions, Hog, Program, Stuck};
pub use kernel::{Lack, hotplugs, lacks, ready};
pub use program::{FEW_CPUS, Grant, Holder, NAME, Parts, Slices, Verified, await_end_of_ours, probe};
pub use scheduler::{Poll, Scx, ScxOptions, capabilities};
pub use together::ThreadSetting;
