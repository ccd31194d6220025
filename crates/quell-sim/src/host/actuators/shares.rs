//! Shares of CPU time: cpu.weight and cpu.idle.

use quell_model::{Capabilities, Knob, KnobKind, KnobSetting, Support, Target, TargetKind};

use super::{Actuator, On};
use crate::contention::MeasuredOfMemory;

pub(super) struct Shares;

impl Actuator for Shares {
    fn tell(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        for knob in [KnobKind::Weight, KnobKind::IdleOnly] {
            found.knobs.insert(knob, Support::Yes);
            let why = "a simulated thread has a class and no weight of its own".into();
            found.limit_on(knob, TargetKind::Thread, Support::No { why, mend: "set it on the workload".into() });
        }
    }

    fn set(&self, setting: &KnobSetting, on: &mut On<'_>) {
        let Target::Workload(id) = setting.target else { return };
        let group = on.sim.tenants[id.index()].group;
        match setting.knob {
            Knob::Weight(weight) => on.sim.kernel.set_weight(group, weight),
            Knob::IdleOnly(idle) => on.sim.kernel.set_idle(group, idle),
            _ => {}
        }
    }
}
