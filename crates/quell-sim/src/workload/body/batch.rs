//! Work without end.

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::contention::ProfileName;
use crate::kernel::{ENDLESS, Kernel, TaskId};
use crate::workload::load::Common;

/// Every thread has work without end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchSpec {
    /// Busy and quiet in turn, all threads together, as a collector is.
    pub phases: Option<Phases>,
    /// Work of several kinds in turn, all threads together, from the first again after the last; in place of the
    /// workload's own profile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycle: Vec<Turn>,
}

/// A kind of work for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// What it asks of caches and memory.
    pub profile: ProfileName,
    /// For how long …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Nanos>,
    /// … or for how much CPU time at full speed, all threads together. It is looked at once a millisecond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Nanos>,
}

/// How often it is looked whether a turn's work is done, ns.
const LOOK: u64 = 1_000_000;
/// More work than any simulation does, ns: a hundred hours for each thread.
const PLENTY: u64 = 360_000_000_000_000;

impl BatchSpec {
    pub(crate) fn check(&self) -> Result<(), String> {
        let lengths = self.phases.iter().flat_map(|phases| [phases.busy, phases.quiet]);
        let turns = self.cycle.iter().filter_map(|turn| turn.lasts.or(turn.work));
        if lengths.chain(turns).any(|length| length.0 < 1_000) {
            return Err("phases shorter than a microsecond: make them longer".into());
        }
        if self.cycle.iter().any(|turn| turn.lasts.is_some() == turn.work.is_some()) {
            return Err("a turn of a cycle either lasts a time or is so much work: give one of them".into());
        }
        if self.phases.is_some() && !self.cycle.is_empty() {
            return Err("both phases and a cycle: give one of them".into());
        }
        self.cycle.iter().try_for_each(|turn| turn.profile.profile().map(|_| ()))
    }
}

/// Busy for a while, then quiet for a while.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    /// Length of the busy part.
    pub busy: Nanos,
    /// Length of the quiet part; it comes first.
    pub quiet: Nanos,
}

/// Batch work under way.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    phases: Option<Phases>,
    is_busy: bool,
    turns: Vec<Turn>,
    turn: usize,
    /// Work done when the turn began, ns.
    began: u64,
}

impl Batch {
    pub fn new(spec: Option<&BatchSpec>) -> Batch {
        let turns = spec.map(|spec| spec.cycle.clone()).unwrap_or_default();
        Batch { phases: spec.and_then(|spec| spec.phases), is_busy: false, turns, turn: 0, began: 0 }
    }

    pub fn start(&mut self, own: &Common, kernel: &mut Kernel) {
        match self.phases {
            Some(phases) => return kernel.timers.set(own.timer, kernel.now() + phases.quiet.0),
            None => own.tasks.iter().for_each(|&task| kernel.wake(task, self.amount(), None)),
        }
        self.take_turn(own, kernel);
    }

    pub fn due(&mut self, own: &Common, kernel: &mut Kernel) {
        let Some(phases) = self.phases else {
            let work = self.turns.get(self.turn).and_then(|turn| turn.work);
            if work.is_some_and(|work| done(own, kernel) < self.began + work.0) {
                return kernel.timers.set(own.timer, kernel.now() + LOOK);
            }
            self.turn = (self.turn + 1) % self.turns.len().max(1);
            return self.take_turn(own, kernel);
        };
        self.is_busy = !self.is_busy;
        kernel.timers.set(own.timer, kernel.now() + if self.is_busy { phases.busy.0 } else { phases.quiet.0 });
        for &task in &own.tasks {
            if self.is_busy { kernel.wake(task, ENDLESS, None) } else { kernel.block(task) }
        }
    }

    /// Its threads have work, or none.
    pub fn set_busy(&mut self, own: &Common, kernel: &mut Kernel, is_busy: bool) {
        for &task in &own.tasks {
            if is_busy { kernel.wake(task, self.amount(), None) } else { kernel.block(task) }
        }
    }

    /// Another thread is there.
    pub fn add_thread(&self, own: &Common, kernel: &mut Kernel, task: TaskId) {
        kernel.set_phase(task, own.phases.cycle.get(self.turn).copied().unwrap_or(own.phases.own));
        if self.phases.is_none() || self.is_busy {
            kernel.wake(task, self.amount(), None);
        }
    }

    /// The turn of its cycle.
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// Progress is counted only where turns depend on it.
    fn amount(&self) -> u64 {
        if self.turns.iter().any(|turn| turn.work.is_some()) { PLENTY } else { ENDLESS }
    }

    /// All threads do the work of this turn.
    fn take_turn(&mut self, own: &Common, kernel: &mut Kernel) {
        let Some((&phase, turn)) = own.phases.cycle.get(self.turn).zip(self.turns.get(self.turn)) else { return };
        kernel.timers.set(own.timer, kernel.now() + turn.lasts.map_or(LOOK, |lasts| lasts.0));
        if turn.work.is_some() {
            self.began = done(own, kernel);
        }
        own.tasks.iter().for_each(|&task| kernel.set_phase(task, phase));
    }
}

/// Work that the threads have done of [`PLENTY`], ns.
fn done(own: &Common, kernel: &mut Kernel) -> u64 {
    own.tasks.iter().map(|&task| PLENTY.saturating_sub(kernel.work_left(task))).sum()
}
