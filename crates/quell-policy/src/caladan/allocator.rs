//! Algorithm 1: the top-level core allocator (caladan-osdi20 §5.2.1).
//!
//! ```text
//! for each task T:
//!     if QueueingDelay(T) < THRESH_QD[T]: continue
//!     if T is limited by BW controller: continue
//!     for each core C:
//!         if C is banned by HT controller: continue
//!         if task_on_core[C] has priority over T: continue
//!         score[C] = CalculateScore(C, T)
//!     find core C with highest score; allocate C to T (if found)
//! ```

use quell_model::view::at;
use quell_model::{CpuId, CpuSet, Nanos, NoteKind, Plan, Quality, View, WorkloadId};

use super::Caladan;
use crate::cores::{self, Cores, Right, Task, Tasks};

/// Suitability of a core for a task; the first difference decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// "First, we prefer sibling pairs that are both idle."
    idle_pair: bool,
    /// Cores are added "beginning with any idle cores, but preempting additional cores … if necessary" (§5.2.4).
    idle: bool,
    /// Where cores differ in speed, LC tasks have the fastest and BE tasks the slowest (ours; the paper's are alike).
    fit: i64,
    /// "Second, we prefer hyperthread pairings between *different* tasks."
    different_task: bool,
    /// "Finally, … the time each task last used each core", shared between siblings.
    last_used: Nanos,
}

/// `CalculateScore(C, T)`
fn calculate_score(cores: &Cores, core: CpuId, task: WorkloadId, lc: bool) -> Score {
    let siblings = cores.siblings(core);
    let idle = cores.task_on(core).is_none();
    Score {
        idle_pair: idle && siblings.iter().all(|&sibling| cores.task_on(sibling).is_none()),
        idle,
        fit: i64::from(cores.slowness(core)) * if lc { -1 } else { 1 },
        different_task: siblings.iter().all(|&sibling| cores.task_on(sibling) != Some(task)),
        last_used: cores.last_used(task, core),
    }
}

/// Must a task with this right leave the core to its present holder? An idle core is free for all. A busy one goes to
/// the stronger right only: a BE task never preempts an LC task, no task preempts a guaranteed core, and equals leave
/// each other alone. Cores of workloads outside the policy's scope are not touched.
fn has_priority(cores: &Cores, tasks: &Tasks, core: CpuId, right: Right) -> bool {
    match cores.task_on(core) {
        None => false,
        Some(on) => tasks.get(on).is_none_or(|task| task.right_to_keep(cores.held(on)) >= right),
    }
}

/// The best core that a task may have by this right, beside the banned ones and those of `except`.
pub(super) fn best_core(
    cores: &Cores,
    tasks: &Tasks,
    task: WorkloadId,
    right: Right,
    except: &CpuSet,
) -> Option<CpuId> {
    let allowed = cores.allowed().difference(except);
    let lc = tasks.get(task).is_some_and(|task| task.lc);
    let own = tasks.get(task).filter(|own| own.cores.is_some());
    let mut best: Option<(Score, CpuId)> = None;
    for core in allowed.iter() {
        if cores.task_on(core) == Some(task) || has_priority(cores, tasks, core, right) {
            continue;
        }
        if own.is_some_and(|own| !own.may_run_on(core)) {
            continue;
        }
        let score = calculate_score(cores, core, task, lc);
        if best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, core));
        }
    }
    best.map(|(_, core)| core)
}

impl Caladan {
    /// Grants at most one core to each task whose queueing delay is too long, or more if so configured. LC tasks come
    /// first, so that no core is granted to a BE task only to be revoked at once.
    pub(super) fn allocate_cores(&mut self, view: &View, plan: &mut Plan) {
        // Within a round cores are only taken: if one task could not get a core, no task of that right or a lesser one
        // can.
        let mut exhausted = None;
        for lc in [true, false] {
            for slot in 0..self.tasks.slots() {
                let id = WorkloadId(slot as u32);
                let Some(task) = self.tasks.get(id).filter(|task| task.lc == lc) else { continue };
                let mut granted = 0;
                while self.wants_core(view, id, &task, plan)
                    && granted < self.cores_a_round(view, id, &task)
                    && self.allocate_core(id, &task, &mut exhausted, plan)
                {
                    granted += 1;
                }
            }
        }
    }

    /// Upper bound on the cores that a task is granted in one round.
    fn cores_a_round(&self, view: &View, id: WorkloadId, task: &Task) -> u64 {
        let delay = self.queueing_delay(view, id).filter(|_| self.config.many_a_round).unwrap_or_default();
        (delay.0 / task.thresh_qd.0.max(1)).clamp(1, self.cores.pool().len().max(1) as u64)
    }

    /// Grants one core, if there is one.
    fn allocate_core(&mut self, id: WorkloadId, task: &Task, exhausted: &mut Option<Right>, plan: &mut Plan) -> bool {
        let right = task.right_to_next(self.cores.held(id));
        let found = match *exhausted {
            Some(none_for) if right <= none_for => None,
            _ => best_core(&self.cores, &self.tasks, id, right, &CpuSet::EMPTY),
        };
        let found = found.or_else(|| match right {
            Right::Guaranteed => self.hyperthread.unban_one(&mut self.cores, plan),
            _ => None,
        });
        match found {
            Some(core) => self.cores.grant(core, id, plan),
            // One that may not run everywhere says nothing of the others.
            None if task.cores.is_some() => {}
            None => *exhausted = (*exhausted).max(Some(right)),
        }
        found.is_some()
    }

    /// A core was yielded, or its ban ended: it goes at once to the task with the strongest right, among equals to the one
    /// that has waited longest, "reducing the cycles the core spends idling".
    pub(super) fn hand_on(&mut self, core: CpuId, view: &View, plan: &mut Plan) {
        if !self.cores.allowed().contains(core) || self.cores.task_on(core).is_some() {
            return;
        }
        let mut best: Option<(Right, Nanos, WorkloadId)> = None;
        for slot in 0..self.tasks.slots() {
            let id = WorkloadId(slot as u32);
            let Some(task) = self.tasks.get(id) else { continue };
            if !task.may_run_on(core) || !self.wants_core(view, id, &task, plan) {
                continue;
            }
            let right = task.right_to_next(self.cores.held(id));
            let delay = self.queueing_delay(view, id).unwrap_or_default();
            if best.is_none_or(|(strongest, longest, _)| (right, delay) > (strongest, longest)) {
                best = Some((right, delay, id));
            }
        }
        if let Some((_, _, next_holder)) = best {
            self.cores.grant(core, next_holder, plan);
        }
    }

    /// `QueueingDelay(T)`: waiting time of the oldest element of any of its queues. (The paper adds up the waiting work
    /// of one of its runtime's cores; here no queue belongs to a core.)
    fn queueing_delay(&self, view: &View, id: WorkloadId) -> Option<Nanos> {
        let unread = at(&view.workloads.unread_delay, id.index()).usable().filter(|_| self.config.sockets);
        cores::queueing_delay(view, id).map(|ready| ready.max(unread.unwrap_or_default()))
    }

    /// Is the task delayed, and may it have one more core?
    fn wants_core(&mut self, view: &View, id: WorkloadId, task: &Task, plan: &mut Plan) -> bool {
        let Some(delay) = self.queueing_delay(view, id) else {
            let sample = at(&view.workloads.queueing_delay, id.index());
            if sample.quality == Quality::Absent && self.said_absent.first() {
                plan.note(NoteKind::Refused, Some(id), "its queueing delay is not measured: it is granted no core");
            }
            return false;
        };
        if delay < task.thresh_qd {
            return false;
        }
        let held = self.cores.held(id);
        held < task.limit && !self.bandwidth.limits(id, held)
    }
}
