//! The freezer: whom a knob or a solo run pauses.

use quell_model::{Capabilities, Knob, KnobKind, KnobSetting, Support, Target};

use super::{Actuator, On};
use crate::contention::MeasuredOfMemory;

pub(super) struct Freezer;

impl Actuator for Freezer {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        found.knobs.insert(KnobKind::Pause, Support::Yes);
    }

    fn set(&self, setting: &KnobSetting, on: &mut On<'_>) {
        let Knob::Pause(paused) = setting.knob else { return };
        if let Target::Workload(id) = setting.target {
            on.members.get_mut(id).into_iter().for_each(|member| member.paused = paused);
            return self.fit(on);
        }
        let (threads, kernel) = on.threads(setting.target);
        threads.into_iter().for_each(|task| kernel.set_stopped(task, paused));
    }

    fn fit(&self, on: &mut On<'_>) {
        for (id, member) in on.members.each() {
            let cpus = member.cpus.unwrap_or(on.sim.kernel.masks.online);
            let by_lease = on.leases.iter().any(|lease| lease.pauses(id, &member.spec, &cpus));
            for &task in &on.sim.tenants[id.index()].tasks {
                on.sim.kernel.set_stopped(task, member.paused || by_lease);
            }
        }
    }
}
