//! A thread of a simulated kernel, as plain data.

use quell_model::{CpuSet, SchedClass};

use crate::ids::GroupId;
use crate::switching::Switching;
use crate::timers::TimerId;
use crate::weight;

/// What a CPU's speed is at its highest frequency with no one in its way; work is counted in nanoseconds times this.
/// The longest piece of work is thirteen days.
pub(crate) const FULL_SPEED: u64 = 1 << 14;

/// What a thread does at the moment, as far as caches and memory are concerned; 0: nothing that anybody notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PhaseId(pub u16);

/// Work without end.
pub(crate) const ENDLESS: u64 = u64::MAX;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Runs or waits for a CPU.
    Runnable,
    /// Waits for something else.
    Sleeping,
}

/// After a wake-up a thread that waits longer than that for a CPU starts late, in ns (as quell-trace counts).
pub(crate) const LATE_START: u64 = 4_000_000;

/// One thread.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub state: State,
    /// Not to run although it could: its workload is paused.
    pub stopped: bool,
    /// It is gone, and sleeps for ever.
    pub ended: bool,
    /// In a queue of some class, running or not.
    pub queued: bool,
    pub class: SchedClass,
    /// Its owner's, before any policy.
    pub own_class: SchedClass,
    /// The CPU of its queue; where it ran last, if it is in none.
    pub cpu: usize,
    pub affinity: Option<CpuSet>,
    /// Where it may run: affinity, within its group's CPU set, within what is online.
    pub allowed: CpuSet,
    pub group: GroupId,
    pub workload: u32,
    /// In a deferrable server's list: its priority.
    pub served: Option<u32>,
    pub entity: usize,
    /// A weight of its own in place of its nice value's: a `cpu.weight`.
    pub own_weight: Option<u32>,
    /// A wake-up latency of its own, ns.
    pub latency: Option<u64>,
    /// Work left, in nanoseconds at full speed times [`FULL_SPEED`].
    pub left: u64,
    pub run_time: u64,
    pub run_delay: u64,
    pub switching: Switching,
    /// Times it waited longer than its wake-up latency, or [`LATE_START`], for a CPU after it was woken.
    pub late_starts: u64,
    pub runnable_since: u64,
    /// When it ran last, and where; for caches.
    pub ran_at: u64,
    pub ran_on: usize,
    /// Where it was before its last wake-up (`recent_used_cpu`).
    pub was_on: usize,
    /// It was made, and has not run yet.
    pub is_new: bool,
    /// Another thread woke it last, not an interrupt.
    pub woken_by_thread: bool,
    /// The round-robin quantum's or a granted CPU's start.
    pub turn_began: u64,
    pub phase: PhaseId,
    /// When the request that it works on began.
    pub request_began: Option<u64>,
    pub budget: Budget,
    pub timer: TimerId,
}

impl Task {
    /// Its weight in the kernel's unit: its own, or its nice value's.
    pub fn weight(&self) -> u64 {
        match (self.class, self.own_weight) {
            (SchedClass::Fair { .. } | SchedClass::Batch { .. }, Some(own)) => weight::of_group(own),
            (SchedClass::Fair { nice, .. } | SchedClass::Batch { nice }, None) => weight::of_nice(nice),
            (SchedClass::Idle, _) => weight::IDLE,
            _ => weight::NICE_0,
        }
    }

    /// A slice of its own, ns.
    pub fn own_slice(&self) -> Option<u64> {
        let of_class = match self.class {
            SchedClass::Fair { slice, .. } => slice.map(|slice| slice.0),
            _ => None,
        };
        self.latency.or(of_class)
    }
}

/// A SCHED_DEADLINE thread's server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    /// Below zero: what the thread ran too long before that was noticed; the next period pays it.
    pub left: i64,
    pub deadline: u64,
    pub throttled: bool,
    pub timer: Option<TimerId>,
}
