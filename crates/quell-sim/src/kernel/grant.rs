//! Quell's own class, as its sched_ext scheduler has it: CPUs belong to workloads, and a workload's threads run first
//! come, first served on the CPUs that it holds. What the host does by itself follows the rules' reference functions.

use std::collections::{BTreeMap, VecDeque};

use quell_model::rule::{Occupancy, Standing, ban_holds, next_holder, on_wake_up};
use quell_model::{CpuId, CpuSet, Event, Nanos, Rule, RuleKind, Topology, WorkloadId};

use super::Kernel;
use super::progress::Progress;
use super::state::{State, TaskId};

/// A best-effort thread gives way to another of its workload after this time, ns (our choice: a few ticks).
pub(super) const TURN: u64 = 8_000_000;

/// Who holds which CPU, and who waits for one.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    /// Does this class run ordinary threads, instead of the fair one?
    pub is_on: bool,
    pub holder: Vec<Option<WorkloadId>>,
    pub banned: CpuSet,
    /// By workload: runnable threads that do not run, the oldest first.
    pub waiting: Vec<VecDeque<TaskId>>,
    pub standing: Vec<Standing>,
    pub rules: BTreeMap<(RuleKind, Option<WorkloadId>, Option<CpuId>), Rule>,
    pub progress: Progress,
}

impl Grants {
    pub fn new(cpus: usize) -> Grants {
        Grants {
            is_on: false,
            holder: vec![None; cpus],
            banned: CpuSet::EMPTY,
            waiting: Vec::new(),
            standing: Vec::new(),
            rules: BTreeMap::new(),
            progress: Progress::default(),
        }
    }

    fn occupancy<'a>(&'a self, pool: CpuSet, topology: &'a Topology) -> Occupancy<'a> {
        Occupancy { pool, banned: self.banned, holder: &self.holder, standing: &self.standing, topology }
    }

    fn has_rule(&self, kind: RuleKind, workload: WorkloadId) -> bool {
        self.rules.contains_key(&(kind, Some(workload), None))
    }

    /// How long the oldest waiting thread of a workload has waited.
    pub fn oldest(&self, workload: usize) -> Option<TaskId> {
        self.waiting.get(workload)?.front().copied()
    }
}

impl Kernel {
    /// From now on ordinary threads belong to this class. To be called before any thread runs.
    pub(crate) fn use_grants(&mut self, latency_critical: &[bool]) {
        self.grants.is_on = true;
        self.grants.waiting = vec![VecDeque::new(); latency_critical.len()];
        self.grants.standing = latency_critical.iter().map(|&lc| Standing { lc, ..Standing::default() }).collect();
    }

    /// A workload comes into this slot.
    pub(crate) fn admit(&mut self, slot: usize, is_lc: bool) {
        if self.grants.is_on {
            let slots = self.grants.waiting.len().max(slot + 1);
            self.grants.waiting.resize(slots, VecDeque::new());
            self.grants.standing.resize(slots, Standing::default());
            self.grants.standing[slot] = Standing { lc: is_lc, ..Standing::default() };
        }
    }

    /// The workload of this slot is gone, after its threads: it has no CPU, no rule and no server any more.
    pub(crate) fn dismiss(&mut self, slot: usize) {
        let gone = WorkloadId(slot as u32);
        self.grants.rules.retain(|&(_, workload, _), _| workload != Some(gone));
        self.grants.progress.set_leader(gone, None);
        if let Some(standing) = self.grants.standing.get_mut(slot) {
            *standing = Standing::default();
        }
        for cpu in (0..self.cpus.len() as u32).map(CpuId) {
            if self.grants.holder[cpu.index()] == Some(gone) {
                self.hand(cpu, None);
            }
        }
        self.dismiss_servers(gone.0);
    }

    pub(crate) fn wake_granted(&mut self, task: TaskId) {
        if self.wake_served(task) {
            return;
        }
        self.begin_progress(task);
        let last = CpuId(self.task(task).cpu as u32);
        let workload = WorkloadId(self.grants.progress.queue_of(self.task(task).workload) as u32);
        let queue = &mut self.grants.waiting[workload.index()];
        queue.push_back(task);
        if queue.len() == 1 {
            self.reports.happened.push(Event::QueueFormed(workload));
        }
        let takes = |kind| self.grants.has_rule(kind, workload);
        if (takes(RuleKind::Guaranteed) || takes(RuleKind::Burst))
            && let Some(cpu) =
                on_wake_up(&self.grants.occupancy(self.masks.online, &self.topology), workload, Some(last))
        {
            self.hand(cpu, Some(workload));
        }
    }

    pub(crate) fn leave_granted(&mut self, task: TaskId) {
        let queue = self.queue_of_granted(task);
        self.grants.waiting[queue].retain(|&other| other != task);
        if self.task(task).state == State::Sleeping {
            self.end_progress(task);
        }
        if self.is_running(task) {
            let cpu = self.task(task).cpu;
            self.reschedule(cpu);
        }
    }

    /// A thread that ran here and can run on waits again, before those that have not run yet.
    pub(crate) fn requeue_granted(&mut self, task: TaskId, cpu: usize) {
        let seen = self.task(task);
        if seen.stopped {
            return;
        }
        let (workload, ran) = (self.queue_of_granted(task), self.now - seen.turn_began);
        if !self.is_held_by(cpu, workload) {
            self.reports.preempted.push(task);
        }
        let is_over = self.grants.holder[cpu].is_some() && (ran >= TURN || self.is_progress_over(task, workload));
        let queue = &mut self.grants.waiting[workload];
        if is_over { queue.push_back(task) } else { queue.push_front(task) }
    }

    /// The workload in whose queue the thread is.
    fn queue_of_granted(&self, task: TaskId) -> usize {
        self.grants.progress.queue_of(self.task(task).workload)
    }

    /// May the workload's threads run on this CPU?
    fn is_held_by(&self, cpu: usize, workload: usize) -> bool {
        let id = CpuId(cpu as u32);
        self.grants.holder[cpu] == Some(WorkloadId(workload as u32)) && !self.grants.banned.contains(id)
    }

    /// CPUs that the workload holds and does not use yet, less its threads that are on their way there.
    pub(crate) fn unused_grants(&self, workload: usize) -> usize {
        let uses = |cpu: usize| self.cpus[cpu].current.is_some_and(|task| self.queue_of_granted(task) == workload);
        let unused = (0..self.cpus.len()).filter(|&cpu| self.is_held_by(cpu, workload) && !uses(cpu)).count();
        unused.saturating_sub(self.grants.waiting[workload].len())
    }

    /// Hands a CPU to a workload, or to none.
    pub(crate) fn hand(&mut self, cpu: CpuId, to: Option<WorkloadId>) {
        if self.grants.holder[cpu.index()] != to {
            self.account(cpu.index());
            self.grants.holder[cpu.index()] = to;
            self.reschedule(cpu.index());
        } else if to.is_some() && self.cpus[cpu.index()].current.is_none() {
            self.reschedule(cpu.index());
        }
    }

    /// The holder's next thread; a holder without one yields the CPU, and the next in line inherits it.
    pub(crate) fn pick_granted(&mut self, cpu: usize) -> Option<TaskId> {
        let id = CpuId(cpu as u32);
        if self.grants.banned.contains(id) || !self.masks.online.contains(id) {
            return None;
        }
        let current = self.cpus[cpu].current.filter(|&task| self.is_granted(task));
        loop {
            let holder = self.grants.holder[cpu]?;
            if let Some(task) = current
                && self.queue_of_granted(task) == holder.index()
                && self.task(task).state == State::Runnable
                && !self.task(task).stopped
                && !self.is_turn_over(task)
            {
                return Some(task);
            }
            let queue = &self.grants.waiting[holder.index()];
            let place = match self.grants.progress.leads(holder.index()) {
                true => self.place_by_progress(holder.index(), cpu),
                false => queue.iter().position(|&task| self.may_run(task, cpu)),
            };
            if let Some(place) = place {
                let task = self.grants.waiting[holder.index()].remove(place)?;
                self.tasks[task.0 as usize].cpu = cpu;
                return Some(task);
            }
            self.grants.holder[cpu] = None;
            self.reports.happened.push(Event::Yielded(id, holder));
            let waits = |workload: &WorkloadId| {
                *workload != holder
                    && self.grants.has_rule(RuleKind::Rank, *workload)
                    && !self.grants.waiting[workload.index()].is_empty()
            };
            let waiting = (0..self.grants.waiting.len() as u32).map(WorkloadId).filter(waits);
            self.grants.holder[cpu] =
                next_holder(&self.grants.occupancy(self.masks.online, &self.topology), id, waiting);
        }
    }

    fn is_turn_over(&self, task: TaskId) -> bool {
        let (seen, queue) = (self.task(task), self.queue_of_granted(task));
        let others_wait = !self.grants.waiting[queue].is_empty();
        let is_turns = others_wait && !self.grants.standing[queue].lc && self.now - seen.turn_began >= TURN;
        is_turns || self.is_progress_over(task, queue)
    }

    pub(crate) fn tick_granted(&mut self, task: TaskId, cpu: usize) {
        if self.is_turn_over(task) {
            self.reschedule(cpu);
        }
    }

    /// A rule stands from now on.
    pub(crate) fn enact(&mut self, rule: Rule) {
        self.grants.rules.insert(rule.key(), rule);
        match rule {
            Rule::Guaranteed { workload, cpus } => self.grants.standing[workload.index()].guaranteed = cpus,
            Rule::Burst { workload, cpus } => self.grants.standing[workload.index()].burst = cpus,
            Rule::Limit { workload, cpus } => self.grants.standing[workload.index()].limit = cpus,
            Rule::Rank { workload, rank } => self.grants.standing[workload.index()].rank = rank,
            Rule::SiblingBan { .. } => self.lift_bans(),
            Rule::Together { workload, leader, .. } => self.join_leader(workload, leader),
            // [`Kernel::set_server`] has servers.
            Rule::Server { .. } => {}
        }
        if let Rule::Guaranteed { cpus: 0, .. } | Rule::Burst { cpus: 0, .. } = rule {
            self.grants.rules.remove(&rule.key());
        }
    }

    /// The workload holds CPUs with the leader from now on, or alone: its threads wait where they belong.
    fn join_leader(&mut self, workload: WorkloadId, leader: Option<WorkloadId>) {
        self.grants.progress.set_leader(workload, leader);
        let moved: Vec<TaskId> = self.grants.waiting.iter_mut().flat_map(std::mem::take).collect();
        for task in moved {
            let queue = self.queue_of_granted(task);
            self.grants.waiting[queue].push_back(task);
        }
        for cpu in 0..self.cpus.len() {
            self.reschedule(cpu);
        }
    }

    /// A thread begins a request, or ends one.
    pub(crate) fn set_request(&mut self, task: TaskId, began: Option<u64>) {
        self.tasks[task.0 as usize].request_began = began;
        if !self.grants.rules.is_empty() {
            self.lift_bans();
        }
    }

    /// When the request that a CPU works on began.
    pub(crate) fn request_on(&self, cpu: usize) -> Option<Nanos> {
        self.cpus[cpu].current.and_then(|task| self.task(task).request_began).map(Nanos)
    }

    /// Bans whose request ended are over; CPUs that are no longer banned go on, others are parked.
    fn lift_bans(&mut self) {
        let mut banned = CpuSet::EMPTY;
        let standing: Vec<(CpuId, bool)> = self
            .grants
            .rules
            .values()
            .filter_map(|rule| match *rule {
                Rule::SiblingBan { cpu, request_start } => {
                    Some((cpu, ban_holds(request_start, self.request_on(cpu.index()))))
                }
                _ => None,
            })
            .collect();
        for (cpu, holds) in standing {
            if holds {
                banned = banned.union(&self.topology.siblings_of(cpu));
            } else {
                self.grants.rules.remove(&(RuleKind::SiblingBan, None, Some(cpu)));
            }
        }
        let before = std::mem::replace(&mut self.grants.banned, banned);
        let changed = banned.difference(&before).union(&before.difference(&banned));
        changed.iter().for_each(|cpu| self.reschedule(cpu.index()));
    }
}
