//! Cache ways and frequencies: what limits work on the machine, and is lifted for who runs alone.

use quell_model::{Capabilities, Knob, KnobKind, KnobSetting, Support, Target};

use super::{Actuator, On};
use crate::contention::MeasuredOfMemory;
use crate::host::capabilities::no_contention;

pub(super) struct Limits;

impl Actuator for Limits {
    fn tell(&self, of_memory: MeasuredOfMemory, found: &mut Capabilities) {
        let ways = if of_memory == MeasuredOfMemory::Nothing { no_contention() } else { Support::Yes };
        found.knobs.extend([(KnobKind::CacheWays, ways), (KnobKind::MaxFrequencyKhz, Support::Yes)]);
    }

    fn set(&self, setting: &KnobSetting, on: &mut On<'_>) {
        match (setting.target, setting.knob) {
            (Target::Workload(id), Knob::CacheWays(ways)) => on.sim.set_cache_ways(id.index(), ways),
            (Target::Cpu(cpu), Knob::MaxFrequencyKhz(khz)) => on.sim.set_frequency(cpu, khz),
            _ => {}
        }
    }

    fn fit(&self, on: &mut On<'_>) {
        let lifted = on.lease.filter(|lease| lease.lift_isolations);
        on.sim.lift_limits(lifted.map(|lease| lease.solo.index()));
    }
}
