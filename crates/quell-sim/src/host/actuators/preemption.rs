//! When a running thread gives way to one that woke up: the kernel's preemption mode.

use quell_model::{Capabilities, Knob, KnobKind, KnobSetting, Support, Target};

use super::{Actuator, On};
use crate::contention::MeasuredOfMemory;

pub(super) struct Preemption;

impl Actuator for Preemption {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        found.knobs.insert(KnobKind::Preemption, Support::Yes);
    }

    fn set(&self, setting: &KnobSetting, on: &mut On<'_>) {
        if let (Target::Machine, Knob::Preemption(mode)) = (setting.target, setting.knob) {
            on.sim.kernel.config.preemption = mode;
        }
    }
}
