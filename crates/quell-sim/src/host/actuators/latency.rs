//! Wake-up latencies of threads, and BVT's warp.

use quell_model::{Capabilities, Knob, KnobKind, KnobSetting, Support, Target};

use super::{Actuator, On};
use crate::contention::MeasuredOfMemory;

pub(super) struct Latency;

impl Actuator for Latency {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        found.knobs.insert(KnobKind::WakeUpLatency, Support::Yes);
        found
            .knobs
            .insert(KnobKind::Warp, Support::Partly("it counts where the kernel's fair scheduler is bvt".into()));
    }

    fn set(&self, setting: &KnobSetting, on: &mut On<'_>) {
        match (setting.target, setting.knob) {
            (Target::Workload(id), Knob::Warp(warp)) => {
                on.sim.kernel.set_group_warp(on.sim.tenants[id.index()].group, warp);
            }
            (target, Knob::Warp(warp)) => {
                let (threads, kernel) = on.threads(target);
                threads.into_iter().for_each(|task| kernel.set_warp(task, warp));
            }
            (target, Knob::WakeUpLatency(latency)) => {
                let (threads, kernel) = on.threads(target);
                threads.into_iter().for_each(|task| kernel.set_latency(task, latency));
            }
            _ => {}
        }
    }
}
