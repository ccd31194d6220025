//! Workloads that hold CPUs as one, by progress: their threads are in the queue of one of them, first come, first served
//! (`quell_model::rule::next_by_progress`), with what that rule reads: the time of each service, and which threads sleep on
//! which.

use quell_model::rule::{Bounds, Waiting, next_by_progress};
use quell_model::{Nanos, WorkloadId};

use super::Kernel;
use super::state::{State, TaskId};

/// A thread that ran for this long is the last of the queue where others wait, ns.
const SLICE: u64 = 4_000_000;
/// As the BPF program has them.
const BOUNDS: Bounds = Bounds { lead: Nanos::from_millis(12), overdue: Nanos::from_millis(4) };

/// One workload that holds CPUs with others.
#[derive(Clone, Copy, Debug, Default)]
struct Service {
    leader: Option<WorkloadId>,
    /// CPU time, by the clock of its leader.
    used: u64,
    /// Of a leader: the time of the service that ran last.
    clock: u64,
}

/// What a thread sleeps on.
#[derive(Clone, Copy, Debug, Default)]
struct Edge {
    /// The thread of its workload that woke it last.
    waker: Option<TaskId>,
    /// Does it sleep on that one?
    sleeps: bool,
    /// Threads that sleep on it.
    sleepers: u32,
}

/// Of all such workloads and their threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    by_slot: Vec<Service>,
    edges: Vec<Edge>,
}

impl Progress {
    /// The workload joins the leader, or leaves its leader. A leader that leaves takes the others along.
    pub fn set_leader(&mut self, of: WorkloadId, leader: Option<WorkloadId>) {
        let slots = self.by_slot.len().max(of.index() + 1).max(leader.map_or(0, |id| id.index() + 1));
        self.by_slot.resize(slots, Service::default());
        if leader.is_none() {
            self.by_slot.iter_mut().filter(|one| one.leader == Some(of)).for_each(|one| one.leader = None);
        }
        let clock = leader.map_or(0, |id| self.by_slot[id.index()].clock);
        self.by_slot[of.index()] = Service { leader, used: clock, ..self.by_slot[of.index()] };
    }

    /// The workload in whose queue the threads of this one are.
    pub fn queue_of(&self, workload: u32) -> usize {
        self.leader_of(workload).map_or(workload as usize, WorkloadId::index)
    }

    fn leader_of(&self, workload: u32) -> Option<WorkloadId> {
        self.by_slot.get(workload as usize).and_then(|one| one.leader)
    }

    /// Is the order of this workload's queue that of progress?
    pub fn leads(&self, workload: usize) -> bool {
        self.leader_of(workload as u32).is_some_and(|leader| leader.index() == workload)
    }

    fn edge(&mut self, task: TaskId) -> &mut Edge {
        let at = task.0 as usize;
        if at >= self.edges.len() {
            self.edges.resize(at + 1, Edge::default());
        }
        &mut self.edges[at]
    }
}

impl Kernel {
    /// A thread that belongs to this class comes: of a service that used little lately no more than the lead is made good.
    pub(super) fn begin_progress(&mut self, task: TaskId) {
        let progress = &mut self.grants.progress;
        let workload = self.tasks[task.0 as usize].workload;
        let Some(leader) = progress.leader_of(workload) else { return };
        let earliest = progress.by_slot[leader.index()].clock.saturating_sub(BOUNDS.lead.0);
        let service = &mut progress.by_slot[workload as usize];
        service.used = service.used.max(earliest);
        let edge = progress.edge(task);
        if std::mem::take(&mut edge.sleeps)
            && let Some(waker) = edge.waker
        {
            progress.edge(waker).sleepers -= 1;
        }
    }

    /// One thread wakes another of its workload: if it sleeps again, then on that one.
    pub(super) fn note_edge(&mut self, woken: TaskId, waker: TaskId) {
        let is_sleeping = self.task(woken).state == State::Sleeping;
        let (of, by) = (self.task(woken).workload, self.task(waker).workload);
        if !is_sleeping || of != by || woken == waker || self.grants.progress.leader_of(of).is_none() {
            return;
        }
        let progress = &mut self.grants.progress;
        let edge = progress.edge(woken);
        let before = edge.waker.replace(waker).filter(|_| std::mem::take(&mut edge.sleeps));
        if let Some(before) = before {
            progress.edge(before).sleepers -= 1;
        }
    }

    /// A thread of this class falls asleep: on the one that woke it last.
    pub(super) fn end_progress(&mut self, task: TaskId) {
        let progress = &mut self.grants.progress;
        if progress.leader_of(self.tasks[task.0 as usize].workload).is_none() {
            return;
        }
        let edge = progress.edge(task);
        if let (Some(waker), false) = (edge.waker, std::mem::replace(&mut edge.sleeps, edge.waker.is_some())) {
            progress.edge(waker).sleepers += 1;
        }
    }

    /// A thread of this class ran for this long.
    pub(super) fn charge_granted(&mut self, task: TaskId, span: u64) {
        let workload = self.task(task).workload;
        let progress = &mut self.grants.progress;
        let Some(leader) = progress.leader_of(workload) else { return };
        progress.by_slot[workload as usize].used += span;
        let used = progress.by_slot[workload as usize].used;
        let clock = &mut progress.by_slot[leader.index()].clock;
        *clock = (*clock).max(used);
    }

    /// Has a thread of such a queue run for a slice while others wait?
    pub(super) fn is_progress_over(&self, task: TaskId, queue: usize) -> bool {
        let waits = !self.grants.waiting[queue].is_empty();
        waits && self.grants.progress.leads(queue) && self.now - self.task(task).turn_began >= SLICE
    }

    /// The place of the next thread in such a queue that may run here.
    pub(super) fn place_by_progress(&self, queue: usize, cpu: usize) -> Option<usize> {
        let (progress, waiting) = (&self.grants.progress, &self.grants.waiting[queue]);
        let sleepers = |task: TaskId| progress.edges.get(task.0 as usize).map_or(0, |edge| edge.sleepers);
        let blocked = |workload: u32| {
            waiting.iter().filter(|&&other| self.task(other).workload == workload).map(|&other| sleepers(other)).sum()
        };
        let may = || waiting.iter().copied().enumerate().filter(|&(_, task)| self.may_run(task, cpu));
        let read = |(_, task): (usize, TaskId)| {
            let task = self.task(task);
            let used = Nanos(progress.by_slot[task.workload as usize].used);
            Waiting { since: Nanos(task.runnable_since), used, blocked: blocked(task.workload) }
        };
        let chosen = next_by_progress(may().map(read), Nanos(self.now), BOUNDS)?;
        may().nth(chosen).map(|(place, _)| place)
    }
}
