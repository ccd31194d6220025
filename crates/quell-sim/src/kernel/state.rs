//! The kernel's data: CPUs, and threads (`task`). Numbers name them; everything lies in flat lists.

use super::server::Servers;
pub(crate) use crate::ids::{GroupId, TaskId};
use crate::imbalance::Looks;
pub(crate) use crate::task::{Budget, ENDLESS, FULL_SPEED, LATE_START, PhaseId, State, Task};
pub(crate) use crate::timer::Timer;
use crate::timers::TimerId;
pub(crate) use crate::tree::{Average, Bandwidth, Content, Entity, Group, Queue, Tree};

/// One CPU.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    pub current: Option<TaskId>,
    /// Up to here its running thread's time is accounted.
    pub accounted: u64,
    /// Up to here its running thread's progress is, if that is later.
    pub progressed: u64,
    /// Before this time the running thread makes no progress: a switch's cost.
    pub work_from: u64,
    /// The host has taken it away (in a guest).
    pub away: bool,
    /// Before this time it is in the host (in a guest).
    pub enters_at: u64,
    pub speed: u64,
    pub stop: TimerId,
    pub tick: TimerId,
    pub tick_is_set: bool,
    /// To be rescheduled at the end of this event.
    pub pending: bool,
    /// To be rescheduled once its thread's completion, due now, is handled.
    pub picks_after_completion: bool,
    /// To be rescheduled at the next tick.
    pub lazy: bool,
    /// SCHED_FIFO and SCHED_RR threads, the running one included: highest priority first, then first come first.
    pub real_time: Vec<TaskId>,
    /// Time that they had of this period, if they are limited.
    pub real_time_used: u64,
    /// They wait for the next period.
    pub real_time_throttled: bool,
    /// SCHED_DEADLINE threads with a budget, earliest deadline first.
    pub deadline: Vec<TaskId>,
    /// Deferrable servers, if there ever was one here.
    pub servers: Option<Box<Servers>>,
    /// What the fair server may still give; None: it does not serve.
    pub serving: Option<u64>,
    pub fair_server: TimerId,
    pub fair_server_is_set: bool,
    pub idle_since: u64,
    /// Mean length of its last idle times, at most 1 ms.
    pub mean_idle: u64,
    pub busy_time: u64,
    /// What a look for an idle CPU took lately, ns (`avg_scan_cost`).
    pub scan_cost: u64,
    /// Before this time it does not look for work to pull: nothing that waited might run here.
    pub nothing_to_pull_until: u64,
    /// By domain: when the balancer looks next, and how often it has failed.
    pub balance: Vec<(u64, u32)>,
    /// By domain: of how much use looks for work were when it went idle.
    pub looks: Vec<Looks>,
    /// The part of its time that it was busy lately.
    pub used: Average,
}
