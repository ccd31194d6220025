//! Cache ways, memory throttle, memory nodes, and frequencies of CPUs and the GPU: what limits work on the machine. But for the nodes it is
//! lifted for those that run alone.

use quell_model::{Capabilities, CpuSet, Knob, KnobKind, KnobSetting, LlcWays, Support, Target};

use super::{Actuator, On};
use crate::contention::{Lifted, MeasuredOfMemory};
use crate::host::capabilities::no_contention;

pub(super) struct Limits;

impl Actuator for Limits {
    fn report(&self, of_memory: MeasuredOfMemory, found: &mut Capabilities) {
        let modelled = if of_memory == MeasuredOfMemory::Nothing { no_contention() } else { Support::Yes };
        for knob in [KnobKind::CacheWays, KnobKind::WaysOfLlc, KnobKind::Throttle, KnobKind::MemoryNodes] {
            found.knobs.insert(knob, modelled.clone());
        }
        found.knobs.insert(KnobKind::MaxFrequencyKhz, Support::Yes);
        found.knobs.insert(KnobKind::GpuFrequencyKhz, Support::Yes);
    }

    fn set(&self, setting: &KnobSetting, on: &mut On<'_>) {
        match (setting.target, setting.knob) {
            (Target::Workload(id), Knob::CacheWays(ways)) => on.sim.set_cache_ways(id.index(), None, ways),
            (Target::Workload(id), Knob::WaysOfLlc(LlcWays { llc, mask })) => {
                on.sim.set_cache_ways(id.index(), Some(llc as usize), mask);
            }
            // The hardware rounds up to its step.
            (Target::Workload(id), Knob::Throttle(value)) => {
                on.sim.set_throttle(id.index(), f64::from(value.next_multiple_of(10)) / 100.0);
            }
            // With several nodes memory is where it is used, as in the kernel's policy by default.
            (Target::Workload(id), Knob::MemoryNodes(nodes)) => {
                let one = nodes.iter().next().filter(|_| nodes.0.count_ones() == 1);
                on.sim.set_home(id.index(), one.map(|node| node as usize));
            }
            (Target::Machine, Knob::GpuFrequencyKhz(khz)) => on.sim.set_gpu_frequency(khz),
            (Target::Cpu(cpu), Knob::MaxFrequencyKhz(khz)) => on.sim.set_frequency(cpu, khz),
            _ => {}
        }
    }

    fn fit(&self, on: &mut On<'_>) {
        let lifting = on.leases.iter().filter(|lease| lease.lift_isolations);
        let all = on.sim.kernel.topology.all();
        let tenants = lifting.clone().map(|lease| lease.solo.index()).collect();
        let gpu = lifting.clone().any(|lease| lease.within.is_none());
        let cpus = lifting.fold(CpuSet::EMPTY, |cpus, lease| cpus.union(&lease.within.unwrap_or(all)));
        on.sim.lift_limits(Lifted { tenants, cpus, gpu });
    }
}
