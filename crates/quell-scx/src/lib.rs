//! Quell's own kernel scheduler, by sched_ext: no kernel module, no kernel patch.
//!
//! CPUs belong to workloads. [`Grant`] loads the BPF program `grant`, which schedules every thread that is not real-time:
//! a CPU runs the threads of the workload that holds it. [`Scx`] is it as the
//! Linux host's scheduler, for policies that grant CPUs. What cannot
//! wait for a policy happens in the kernel at the event, by the rules of [`quell_model::rule`].
//!
//! - `bpf/lib`: the kernel's interface (`kernel.h`, `compat.h`), the memory shared with the loader (`grant.h`), the records of
//!   threads (`state.h`, `task.h`), sets (`sets.h`), counters of decisions (`counts.h`), what the rules need to run in the
//!   kernel or on the host (`env.h`)
//! - `bpf/hold`: which workload holds a CPU, and what runs there: the rules (`rules.h`; tested against their reference functions
//!   in `quell-scx-rules`), changes of holders (`holders.h`, `waiting.h`, `line.h`), the next thread (`dispatch.h`), short preemptions
//!   (`keep.h`, `grace.h`)
//! - `bpf/place`: a CPU for a thread that wakes up: how one is found (`look.h`, `kinds.h`), taken (`seek.h`, `direct.h`), or taken from
//!   a thread of the same queue (`overtake.h`)
//! - `bpf/queue`: the queues of waiting threads (`queues.h`, `numbers.h`), those of a slot by CPU (`bound.h`), by set of CPUs
//!   (`masked.h`) and by cache (`cached.h`), and the choice between them (`divided.h`, `starving.h`); workloads that hold CPUs as
//!   one (`together.h`): by their threads' weights (`reweigh.h`), or by progress (`progress.h`, `coming.h`, `edges.h`)
//! - `bpf/groups`: the tree of cgroups (`groups.h`, `cgroups.h`), `cpu.max` (`quota.h`), a thread's workload (`slots.h`)
//! - `bpf/serve`: deferrable servers: the budget (`budget.h`), the timer (`servers.h`), their threads (`serve.h`)
//! - `bpf/tend`: the patrol's periodic work (`patrol.h`, `regroup.h`, `offline.h`, `cookies.h`), threads of the kernel (`upkeep.h`) and
//!   those preempted in it (`boost.h`), and what is reported (`requests.h`, `unread.h`, `stuck.h`, `dump.h`)
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
pub use kernel::{Lack, hotplugs, lacks, ready, state};
pub use program::{FEW_CPUS, Grant, Holder, NAME, Parts, Slices, Verified, await_end_of_ours, probe};
pub use scheduler::{Poll, Scx, ScxOptions, capabilities};
pub use together::ThreadSetting;
