//! Work without end.

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::kernel::{ENDLESS, Kernel};
use crate::workload::load::Common;

/// Every thread has work without end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchSpec {
    /// Busy and quiet in turn, all threads together, as a collector is.
    pub phases: Option<Phases>,
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
}

impl Batch {
    pub fn new(spec: BatchSpec) -> Batch {
        Batch { phases: spec.phases, is_busy: false }
    }

    pub fn start(&mut self, own: &Common, kernel: &mut Kernel) {
        match self.phases {
            Some(phases) => kernel.timers.set(own.timer, phases.quiet.0),
            None => own.tasks.iter().for_each(|&task| kernel.wake(task, ENDLESS, None)),
        }
    }

    pub fn due(&mut self, own: &Common, kernel: &mut Kernel) {
        let Some(phases) = self.phases else { return };
        self.is_busy = !self.is_busy;
        kernel.timers.set(own.timer, kernel.now() + if self.is_busy { phases.busy.0 } else { phases.quiet.0 });
        for &task in &own.tasks {
            if self.is_busy { kernel.wake(task, ENDLESS, None) } else { kernel.block(task) }
        }
    }
}
