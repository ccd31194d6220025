//! Linux's scheduling of watched threads: runs, waits and wake-ups.
//!
//! [`Collector`] loads a BPF program on the scheduler's tracepoints (`sched_switch`, `sched_wakeup`, `sched_waking`,
//! `sched_migrate_task`, `sched_process_fork`). It changes nothing, and it ends with the value. Three kinds of results:
//!
//! - totals per thread, summed in the kernel: run time, run delay, preemptions, wake-ups ([`Collector::threads`]), and
//!   wake-up edges ([`Collector::edges`]). Cheap; for policies.
//! - each event ([`Collector::drain`]), for sums over several CPUs at one instant, which the kernel could only make
//!   under a lock: 32 bytes an event in a ring of 8 MiB, filtered to those of watched threads and idle CPUs. Events
//!   that do not fit are counted ([`Losses`]), never dropped silently.
//! - counts of hardware counters by workload, added up at the switch ([`Collector::counted`]): a set of counters a CPU,
//!   however many workloads.
//!
//! [`Sampler`], a program of its own, says at random instants which watched threads wait and what runs instead: for sums over
//! some time at a small cost.
//!
//! [`Event`] is plain data, so that its readers can be tested without a kernel.
//!
//! The crate is MIT OR Apache-2.0; the BPF program is GPL-2.0-only OR MIT, since the kernel lends some of its functions to
//! GPL-compatible programs only.

mod collector;
mod counting;
mod error;
mod event;
mod obstacle;
mod sampler;
mod wire;

pub use collector::{Collector, Cost, MAX_EDGES, MAX_SLOTS, MAX_THREADS, Options};
pub use error::TraceError;
pub use event::{Change, Doing, Event, Left, Member, Slot, Task};
pub use obstacle::obstacle;
pub use sampler::{Found, Instants, Sampled, Sampler};
pub use wire::{COUNTED_EVENTS, CounterTime, Counts, LATE_START, Totals, Watched};

use serde::Serialize;

/// A wake-up edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// The waker; `None` if that thread is not watched.
    pub waker: Option<i32>,
    /// The thread that was woken.
    pub wakee: i32,
    /// Number of wake-ups.
    pub count: u64,
}

/// Events lost, or left out by design. Anything but zero in the first three makes a result inexact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Events that found no room.
    pub events: u64,
    /// New threads that did not fit into the table of watched threads.
    pub members: u64,
    /// Wake-up edges that found no room.
    pub edges: u64,
    /// Switches from or to a watched thread that the kernel did not report ([`Left::Untold`]). The time since the last
    /// switch on that CPU is attributed to the thread that arrived, which is too much by the run time of the one
    /// before.
    pub switches: u64,
    /// Wake-ups from interrupt context, which are no edges.
    pub interrupts: u64,
}
