//! The tasks: their rights, and their thresholds.

use quell_model::view::at;
use quell_model::{CpuCount, CpuId, CpuSet, Event, Nanos, View, Workload, WorkloadId};
use serde::{Deserialize, Serialize};

/// Strength of a task's right to a core. A core goes to the stronger right (§5.1, "Provisioning cores"; §5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// A best-effort task's: cores that no other task needs.
    BestEffort,
    /// A latency-critical task's beyond its guarantee.
    Burstable,
    /// A latency-critical task's within its guarantee.
    Guaranteed,
}

/// One task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub lc: bool,
    /// Cores "that are always available when needed".
    pub guaranteed: u32,
    /// Guaranteed and burstable cores together.
    pub limit: u32,
    pub thresh_qd: Nanos,
    /// [`Nanos::MAX`]: infinite.
    pub thresh_ht: Nanos,
    /// The cores that its cgroups allow it; None: all.
    #[serde(default)]
    pub cores: Option<CpuSet>,
}

impl Task {
    /// May its threads run on this core?
    pub fn may_run_on(&self, core: CpuId) -> bool {
        self.cores.is_none_or(|cores| cores.contains(core))
    }

    /// The right by which a task that holds this many cores asks for one more.
    pub fn right_to_next(&self, held: u32) -> Right {
        match self.lc {
            false => Right::BestEffort,
            true if held < self.guaranteed => Right::Guaranteed,
            true => Right::Burstable,
        }
    }

    /// The right by which a task that holds this many cores keeps each of them.
    pub fn right_to_keep(&self, held: u32) -> Right {
        self.right_to_next(held.saturating_sub(1))
    }
}

/// Thresholds beyond which a task is in trouble.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    /// The queueing delay from which on it gets another core.
    pub qd: Nanos,
    /// The time that a request may take beside a busy sibling; [`Nanos::MAX`]: for ever.
    pub ht: Nanos,
}

/// All tasks that this policy owns, by slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tasks {
    tasks: Vec<Option<Task>>,
}

impl Tasks {
    /// Follows attachments; says whether something changed.
    pub fn meet(&mut self, view: &View, events: &[Event], thresholds: impl Fn(&Workload) -> Thresholds) -> bool {
        let comes_or_goes =
            |event: &Event| matches!(event, Event::Attached(_) | Event::Detached(_) | Event::Allowed(_));
        if self.tasks.len() == view.workloads.spec.len() && !events.iter().any(comes_or_goes) {
            return false;
        }
        self.tasks.clear();
        self.tasks.resize(view.workloads.spec.len(), None);
        for (id, spec) in view.owned() {
            let Thresholds { qd, ht } = thresholds(spec);
            self.tasks[id.index()] = Some(Task {
                lc: spec.is_lc(),
                guaranteed: spec.guaranteed().ceil(),
                limit: limit(spec.limit, view.allowance(id).and_then(|allowed| allowed.quota)),
                thresh_qd: qd,
                thresh_ht: ht,
                cores: view.allowance(id).and_then(|allowed| allowed.cpus),
            });
        }
        true
    }

    /// The task in this slot.
    pub fn get(&self, id: WorkloadId) -> Option<Task> {
        self.tasks.get(id.index()).copied().flatten()
    }

    /// All tasks in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (WorkloadId, Task)> + '_ {
        let numbered = self.tasks.iter().enumerate();
        numbered.filter_map(|(slot, task)| task.map(|task| (WorkloadId(slot as u32), task)))
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.tasks.len()
    }

    /// Is there no task?
    pub fn is_empty(&self) -> bool {
        self.tasks.iter().all(Option::is_none)
    }

    /// Cores guaranteed to all tasks together.
    pub fn guaranteed(&self) -> u32 {
        self.iter().map(|(_, task)| task.guaranteed).sum()
    }
}

/// Whole cores that are enough for the tighter one of a limit and a quota.
fn limit(limit: Option<CpuCount>, quota: Option<CpuCount>) -> u32 {
    limit.into_iter().chain(quota).min().map_or(u32::MAX, CpuCount::ceil)
}

/// `QueueingDelay(T)`; None where it is not measured.
pub(crate) fn queueing_delay(view: &View, id: WorkloadId) -> Option<Nanos> {
    at(&view.workloads.queueing_delay, id.index()).usable()
}
