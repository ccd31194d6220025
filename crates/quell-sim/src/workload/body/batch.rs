//! Work without end.

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::contention::ProfileName;
use crate::kernel::{ENDLESS, Kernel};
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
    /// For how long.
    pub lasts: Nanos,
}

impl BatchSpec {
    pub(crate) fn check(&self) -> Result<(), String> {
        let lengths = self.phases.iter().flat_map(|phases| [phases.busy, phases.quiet]);
        if lengths.chain(self.cycle.iter().map(|turn| turn.lasts)).any(|length| length.0 < 1_000) {
            return Err("phases shorter than a microsecond: make them longer".into());
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
    /// The lengths of the cycle's turns.
    turns: Vec<u64>,
    turn: usize,
}

impl Batch {
    pub fn new(spec: Option<&BatchSpec>) -> Batch {
        let turns = spec.into_iter().flat_map(|spec| &spec.cycle).map(|turn| turn.lasts.0).collect();
        Batch { phases: spec.and_then(|spec| spec.phases), is_busy: false, turns, turn: 0 }
    }

    pub fn start(&mut self, own: &Common, kernel: &mut Kernel) {
        match self.phases {
            Some(phases) => return kernel.timers.set(own.timer, phases.quiet.0),
            None => own.tasks.iter().for_each(|&task| kernel.wake(task, ENDLESS, None)),
        }
        self.take_turn(own, kernel);
    }

    pub fn due(&mut self, own: &Common, kernel: &mut Kernel) {
        let Some(phases) = self.phases else {
            self.turn = (self.turn + 1) % self.turns.len().max(1);
            return self.take_turn(own, kernel);
        };
        self.is_busy = !self.is_busy;
        kernel.timers.set(own.timer, kernel.now() + if self.is_busy { phases.busy.0 } else { phases.quiet.0 });
        for &task in &own.tasks {
            if self.is_busy { kernel.wake(task, ENDLESS, None) } else { kernel.block(task) }
        }
    }

    /// All threads do the work of this turn.
    fn take_turn(&self, own: &Common, kernel: &mut Kernel) {
        let Some((&phase, lasts)) = own.phases.cycle.get(self.turn).zip(self.turns.get(self.turn)) else { return };
        kernel.timers.set(own.timer, kernel.now() + lasts);
        own.tasks.iter().for_each(|&task| kernel.set_phase(task, phase));
    }
}
