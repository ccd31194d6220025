//! What a kernel has done, as far as it is reported.

use quell_model::Event;

use crate::ids::TaskId;
use crate::trace::Trace;
use crate::wakers::Wakers;

/// What the kernel has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Kernel events: wake-ups, switches, completions of a piece of work, and ticks on busy CPUs.
    pub events: u64,
    /// Threads that became runnable.
    pub wake_ups: u64,
    /// Times a CPU began to run another thread.
    pub switches: u64,
    /// Times a thread began to run on another CPU than before.
    pub migrations: u64,
    /// Threads that the load balancer moved.
    pub balanced: u64,
}

/// All that it reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    pub counters: Counters,
    /// For the host: what a policy may act on.
    pub happened: Vec<Event>,
    pub wakers: Wakers,
    /// Threads from under which a granted CPU was taken, to be reported to the workloads.
    pub preempted: Vec<TaskId>,
    /// What ran where and when, on request.
    pub trace: Option<Box<Trace>>,
}
