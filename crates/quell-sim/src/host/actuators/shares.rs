//! Shares of CPU time: cpu.weight and cpu.idle.

use quell_model::{Capabilities, Knob, KnobKind, KnobSetting, Support, Target, TargetKind};

use super::{Actuator, On};
use crate::contention::MeasuredOfMemory;

pub(super) struct Shares;

impl Actuator for Shares {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        for knob in [KnobKind::Weight, KnobKind::IdleOnly] {
            found.knobs.insert(knob, Support::Yes);
        }
        let why = "a simulated thread is idle-only by its class alone".into();
        let no = Support::No { why, fix: "set its class, or the workload idle-only".into() };
        found.limit_on(KnobKind::IdleOnly, TargetKind::Thread, no);
    }

    fn set(&self, setting: &KnobSetting, on: &mut On<'_>) {
        if let (Target::Thread(_), Knob::Weight(weight)) = (setting.target, setting.knob) {
            let (threads, kernel) = on.threads(setting.target);
            return threads.into_iter().for_each(|task| kernel.set_own_weight(task, Some(weight)));
        }
        let Target::Workload(id) = setting.target else { return };
        let group = on.sim.tenants[id.index()].group;
        match setting.knob {
            Knob::Weight(weight) => on.sim.kernel.set_weight(group, weight),
            Knob::IdleOnly(idle) => on.sim.kernel.set_idle(group, idle),
            _ => {}
        }
    }
}
