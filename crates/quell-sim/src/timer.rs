//! What timers of a simulated machine stand for.

/// What a timer stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The CPU's thread has done its work, or may not run on.
    Stop(u32),
    Tick(u32),
    /// A group's quota is refilled.
    Period(u32),
    /// Quota that was given back goes to those who wait for some.
    Slack(u32),
    /// A SCHED_DEADLINE thread's budget is refilled.
    Replenish(u32),
    /// Ordinary threads have starved for long enough.
    FairServer(u32),
    /// A period of real-time throttling ends.
    RealTimePeriod,
    /// A deferrable server's budget is full again.
    Server(u32),
    /// A workload's timer: the next arrival, or its phase ends.
    Workload(u32),
    /// The next request of a kind arrives.
    Request(u32),
    /// A last-level cache's parts move.
    Cache(u32),
    /// A setting of the machine's acts.
    Settings,
    /// The GPU has done a piece of work.
    Gpu,
    /// A thread's timer: its think time or its period is over.
    Task(u32),
}
