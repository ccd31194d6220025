//! The task monitor (TM, §5 L223): what each thread did in the last period.

use std::ops::Range;

use quell_model::{CpuId, CpuSet, Nanos, ThreadId, ThreadState, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::config::DasecConfig;

/// The weight with which a thread begins, and the mean weight of a workload's threads.
pub(super) const START_WEIGHT: f64 = 100.0;

/// What is set on a thread. `None`: as Linux has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Setting {
    pub weight: u32,
    pub latency: Option<Nanos>,
    pub cpu: Option<CpuId>,
}

impl Setting {
    pub const NOTHING: Setting = Setting { weight: START_WEIGHT as u32, latency: None, cpu: None };
}

/// One thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Task {
    pub id: ThreadId,
    pub workload: WorkloadId,
    pub cpu: CpuId,
    /// Is it running, or could it, at the end of the period?
    pub ready: bool,
    /// CPU time of the last period.
    pub used: Nanos,
    /// Preemptions and late starts in the last period.
    pub conflicts: u64,
    /// Exact weight; the rounded one is set.
    pub weight: f64,
    /// Time slice of the coming period.
    pub slice: Nanos,
    pub latency: Nanos,
    /// The core that it is bound to.
    pub bound: Option<CpuId>,
    /// The edges by which it was woken: the first, and the one after the last.
    edges: (u32, u32),
    /// Since when it has been critical.
    pub critical_since: Option<Nanos>,
    /// What the host has, and what it was sent last.
    pub sent: Setting,
    pub asked: Setting,
    run_time: Nanos,
    happened: u64,
    is_new: bool,
    seen: bool,
}

impl Task {
    /// Did it use up the slice that it had?
    pub fn used_up(&self, config: &DasecConfig) -> bool {
        !self.is_new && self.slice > Nanos::ZERO && self.used >= self.slice.scaled(config.used_up)
    }

    /// The places of the edges by which it was woken.
    pub fn edges(&self) -> Range<usize> {
        self.edges.0 as usize..self.edges.1 as usize
    }

    /// The core that it counts on.
    pub fn core(&self) -> CpuId {
        self.bound.unwrap_or(self.cpu)
    }

    /// Was it first seen just now, so that nothing is known of its last period?
    pub fn is_new(&self) -> bool {
        self.is_new
    }
}

/// A wake-up edge: who woke whom how often in the last period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Edge {
    pub woken: ThreadId,
    pub waker: ThreadId,
    pub times: u64,
    total: u64,
}

/// All threads, by id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Monitor {
    pub tasks: Vec<Task>,
    /// In the order of the woken.
    pub edges: Vec<Edge>,
    before: Vec<Edge>,
}

impl Monitor {
    /// Takes in what a period brought.
    pub fn look(&mut self, view: &View, config: &DasecConfig) {
        self.tasks.iter_mut().for_each(|task| task.seen = false);
        let columns = &view.threads;
        let mut next = 0;
        for row in 0..columns.id.len() {
            let (id, workload) = (columns.id[row], columns.workload[row]);
            if view.workload(workload).is_none() || columns.state[row] == ThreadState::Dead {
                continue;
            }
            // Hosts list threads in the same order each time, so the next record is almost always the one looked for.
            let expected = self.tasks.get(next).is_some_and(|task| task.id == id);
            let found = if expected { Ok(next) } else { self.tasks.binary_search_by_key(&id, |task| task.id) };
            let place = found.unwrap_or_else(|place| {
                self.tasks.insert(place, new(id, workload, config));
                place
            });
            next = place + 1;
            let task = &mut self.tasks[place];
            if task.workload != workload {
                *task = new(id, workload, config);
            }
            let total = |column: &[Option<u64>]| column.get(row).copied().flatten().unwrap_or(0);
            let happened = total(&columns.preemptions) + total(&columns.late_starts);
            let run_time = columns.run_time[row];
            task.is_new = !task.seen_before();
            if !task.is_new {
                task.used = run_time - task.run_time;
                task.conflicts = happened.saturating_sub(task.happened);
            }
            (task.run_time, task.happened, task.seen) = (run_time, happened, true);
            task.cpu = columns.cpu[row];
            task.ready = columns.state[row] == ThreadState::Runnable;
            task.edges = (0, 0);
        }
        self.tasks.retain(|task| task.seen);
        self.look_at_wakers(view);
    }

    fn look_at_wakers(&mut self, view: &View) {
        std::mem::swap(&mut self.edges, &mut self.before);
        self.edges.clear();
        let columns = &view.threads.wake_ups;
        let (mut at, mut of) = (0, None::<(ThreadId, Option<usize>)>);
        for row in 0..columns.woken.len() {
            let (Some(waker), woken, total) = (columns.waker[row], columns.woken[row], columns.count[row]) else {
                continue;
            };
            // The same order each time, with edges that came and went between.
            let same = |edge: &Edge| edge.woken == woken && edge.waker == waker;
            let found = self.before[at..].iter().take(64).position(same).map(|ahead| at + ahead);
            if let Some(found) = found {
                at = found + 1;
            }
            let before = found.map_or(0, |found| self.before[found].total);
            let place = self.edges.len() as u32;
            self.edges.push(Edge { woken, waker, times: total.saturating_sub(before), total });
            if of.is_none_or(|(id, _)| id != woken) {
                of = Some((woken, self.find(woken)));
                of.and_then(|(_, task)| task).into_iter().for_each(|task| self.tasks[task].edges.0 = place);
            }
            of.and_then(|(_, task)| task).into_iter().for_each(|task| self.tasks[task].edges.1 = place + 1);
        }
    }

    /// A thread's record.
    pub fn find(&self, id: ThreadId) -> Option<usize> {
        self.tasks.binary_search_by_key(&id, |task| task.id).ok()
    }

    /// No thread is bound outside these CPUs.
    pub fn free_from(&mut self, pool: &CpuSet) {
        for task in &mut self.tasks {
            task.bound = task.bound.filter(|cpu| pool.contains(*cpu));
        }
    }
}

impl Task {
    fn seen_before(&self) -> bool {
        self.run_time != Nanos::MAX
    }
}

fn new(id: ThreadId, workload: WorkloadId, config: &DasecConfig) -> Task {
    Task {
        id,
        workload,
        cpu: CpuId(0),
        ready: false,
        used: Nanos::ZERO,
        conflicts: 0,
        weight: START_WEIGHT,
        slice: Nanos::ZERO,
        latency: config.start_latency,
        bound: None,
        edges: (0, 0),
        critical_since: None,
        sent: Setting::NOTHING,
        asked: Setting::NOTHING,
        run_time: Nanos::MAX,
        happened: 0,
        is_new: true,
        seen: false,
    }
}
