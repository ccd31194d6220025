//! The online profiler: solo-run data of one task after the other (snu2020 §4.3.1).

use quell_model::{Lease, LeaseRequest, Nanos, NoteKind, Plan, Refusal, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::EdgeIsoConfig;
use super::pausing::Pausing;
use super::task::Task;
use crate::kit::retry;

/// Beside others, or a task alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum Mode {
    /// Beside others.
    #[default]
    CoRun,
    /// A solo run of this task was asked for at this time, by the plan of this number.
    Asked(WorkloadId, Nanos, u64),
    /// The task runs alone.
    Solo(WorkloadId),
}

/// The task that is profiled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Profiler {
    pub mode: Mode,
    /// Pauses of single workloads, while no task runs alone.
    pub pausing: Pausing,
    /// No solo run is asked for before this time.
    not_before: Nanos,
    began: Nanos,
    /// Is the solo run passed on, or ended?
    #[serde(default)]
    has_passed: bool,
    /// Does one run on beside it that it would pause?
    #[serde(default)]
    pub has_company: bool,
    /// The first look's data is of a cache that others have filled.
    is_first: bool,
}

impl Profiler {
    /// The task that runs alone.
    pub fn alone(&self) -> Option<WorkloadId> {
        if let Mode::Solo(id) = self.mode { Some(id) } else { None }
    }

    /// May the data of this look be taken in?
    pub fn takes(&mut self) -> bool {
        !std::mem::take(&mut self.is_first)
    }

    /// Asks for a solo run of the task without solo-run data that had the least of it.
    pub fn ask(&mut self, view: &View, tasks: &[Task], config: &EdgeIsoConfig, plan: &mut Plan) -> bool {
        let missing = tasks.iter().filter(|task| task.is_critical && task.solo.is_none() && task.can_measure(view));
        let Some(next) = missing.clone().min_by_key(|task| (task.alone_for, task.id)) else { return false };
        if view.now < self.not_before {
            return false;
        }
        // Slice by slice it passes on from one to the next.
        let left = missing.fold(Nanos::ZERO, |sum, task| sum + task.left(config));
        plan.leases.push(LeaseRequest::Begin(Lease::of(next.id, true, left.max(config.interval))));
        plan.note(NoteKind::Because, Some(next.id), "no current solo-run data: it runs alone for a while");
        self.mode = Mode::Asked(next.id, view.now, plan.number);
        true
    }

    /// A slice of the task that runs alone is over: the next one's turn comes without a pause, or the solo run ends if none is
    /// left. Asked once a slice.
    pub fn pass(&mut self, view: &View, tasks: &[Task], config: &EdgeIsoConfig, plan: &mut Plan) {
        let Mode::Solo(id) = self.mode else { return };
        let Some(task) = tasks.iter().find(|task| task.id == id).filter(|_| !self.has_passed) else { return };
        let span = view.now - self.began;
        let is_done = task.solo.is_some() || task.alone_for + span >= config.solo;
        if !is_done && span < config.slice {
            return;
        }
        let others = tasks
            .iter()
            .filter(|task| task.id != id && task.is_critical && task.solo.is_none() && task.can_measure(view));
        match others.min_by_key(|task| (task.alone_for, task.id)) {
            Some(next) => {
                self.has_passed = true;
                plan.leases.push(LeaseRequest::Pass { from: id, to: next.id });
            }
            None if is_done => {
                self.has_passed = true;
                plan.leases.push(LeaseRequest::End(id));
            }
            None => {}
        }
    }

    /// The host has not answered in time: ask again.
    pub fn give_up(&mut self, now: Nanos, config: &EdgeIsoConfig) {
        if let Mode::Asked(_, at, _) = self.mode
            && now >= at + config.solo + retry::FIRST
        {
            self.mode = Mode::CoRun;
        }
    }

    /// A solo run began.
    pub fn began(&mut self, id: WorkloadId, now: Nanos) {
        (self.mode, self.began, self.is_first) = (Mode::Solo(id), now, true);
        (self.has_company, self.has_passed) = (false, false);
    }

    /// A task's solo run ended; returns its length.
    pub fn ended(&mut self, id: WorkloadId, now: Nanos) -> Nanos {
        let was = self.mode;
        self.mode = Mode::CoRun;
        match was {
            Mode::Solo(alone) if alone == id => now - self.began,
            _ => {
                self.put_off(now);
                Nanos::ZERO
            }
        }
    }

    /// Nothing could be measured: not again soon.
    pub fn put_off(&mut self, now: Nanos) {
        self.not_before = self.not_before.max(now + retry::FIRST);
    }

    /// The host refused the solo run that this plan asked for.
    pub fn refused(&mut self, number: u64, now: Nanos, why: &Refusal, plan: &mut Plan) {
        let Mode::Asked(id, _, asked) = self.mode else { return };
        if asked != number {
            return;
        }
        self.mode = Mode::CoRun;
        self.not_before = match why {
            Refusal::DutyCycle(until) => *until,
            other => {
                plan.note(
                    NoteKind::Warning,
                    Some(id),
                    format!("no solo run: {other}; trying again in {}", retry::FIRST),
                );
                now + retry::FIRST
            }
        };
    }
}
