//! The events that are counted of each workload, by make of CPU.

use std::path::Path;

use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_CACHE_REFERENCES, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
    PERF_TYPE_HARDWARE,
};
use quell_model::{CpuId, CpuSet};

use super::counter::Event;
use super::full;
use super::lack::Lack;
use crate::{Roots, file};

/// Instructions, cycles, references to the last-level cache, its misses, and requests to it that found the core's queue full,
/// in this order.
pub(crate) const INSTRUCTIONS: usize = 0;
pub(crate) const CYCLES: usize = 1;
pub(crate) const REFERENCES: usize = 2;
pub(crate) const MISSES: usize = 3;
pub(crate) const FULL: usize = 4;

/// The events of a CPU.
pub(crate) type Events = [Option<Event>; 5];

/// A maker of CPUs, as far as their events differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    Intel,
    Amd,
    Arm,
    Other,
}

/// What /proc/cpuinfo says of the CPUs, as far as their events depend on it. It has an entry for each CPU, so that reading it
/// for each is dear on large machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Processor {
    pub make: Make,
    /// The event of a full queue, where the generation is known to have one.
    pub full: Option<u64>,
}

impl Processor {
    pub fn read(roots: &Roots) -> Processor {
        let text = file::read(&roots.proc.join("cpuinfo")).ok().flatten().unwrap_or_default();
        Processor { make: Make::of(&text), full: full::event(&text) }
    }
}

impl Make {
    fn of(text: &str) -> Make {
        let has = |key: &str, values: &[&str]| {
            text.lines().any(|line| line.starts_with(key) && values.iter().any(|value| line.trim().ends_with(value)))
        };
        match () {
            () if has("vendor_id", &["GenuineIntel"]) => Make::Intel,
            () if has("vendor_id", &["AuthenticAMD", "HygonGenuine"]) => Make::Amd,
            () if text.lines().any(|line| line.starts_with("CPU implementer")) => Make::Arm,
            () => Make::Other,
        }
    }

    /// Missing references and misses of the last level, with the reason.
    pub fn lacks_last_level(self, events: &Events) -> Option<Lack> {
        if events[REFERENCES].is_some() && events[MISSES].is_some() {
            return None;
        }
        let (why, fix) = match self {
            Make::Amd => (
                "AMD's CPUs count the second level's references and misses; the counters of the L3 are all its CPUs' \
                 together, and of no workload",
                "use another CPU vendor; bandwidth by workload is available with resctrl (mbm_total_bytes)",
            ),
            Make::Arm => (
                "these CPUs have a third level and count references to the second (ll_cache_rd is not among their events)",
                "use CPUs whose PMU has ll_cache_rd and ll_cache_miss_rd",
            ),
            _ => ("last-level references and misses are unknown for this CPU vendor", super::PASSED_ON),
        };
        Some(Lack { why: why.into(), fix: fix.into() })
    }
}

fn generic(config: u32) -> Option<Event> {
    Some(Event { kind: PERF_TYPE_HARDWARE, config: [config.into(), 0, 0] })
}

/// The events that show what a thread does on this CPU.
///
/// Intel's two of the last level are architectural (SDM volume 3, "LLC Reference" and "LLC Misses"). Arm's are LL_CACHE_RD and
/// LL_CACHE_MISS_RD, or those of the second level where that is the last (Arm Architecture Reference Manual, PMU events 0x36,
/// 0x37, 0x16, 0x17). AMD's core counters have none (linux, arch/x86/events/amd/core.c).
pub(crate) fn events_of(processor: &Processor, roots: &Roots, cpu: CpuId) -> Events {
    let mut events = [generic(PERF_COUNT_HW_INSTRUCTIONS), generic(PERF_COUNT_HW_CPU_CYCLES), None, None, None];
    let last_level = match processor.make {
        Make::Intel => [generic(PERF_COUNT_HW_CACHE_REFERENCES), generic(PERF_COUNT_HW_CACHE_MISSES)],
        Make::Arm => arm(roots, cpu).unwrap_or([None; 2]),
        Make::Amd | Make::Other => [None; 2],
    };
    [events[REFERENCES], events[MISSES]] = last_level;
    if processor.make == Make::Intel {
        events[FULL] = processor.full.and_then(|config| full::on(config, roots, cpu));
    }
    events
}

/// The PMU of this CPU; a machine may have several kinds of CPU.
fn arm(roots: &Roots, cpu: CpuId) -> Option<[Option<Event>; 2]> {
    let devices = roots.sys.join("bus/event_source/devices");
    let has_cpu = |directory: &Path| {
        let cpus = file::parse::<CpuSet>(&directory.join("cpus"), "a CPU list").ok().flatten();
        cpus.is_some_and(|cpus| cpus.contains(cpu))
    };
    let names = file::names(&devices).ok()?;
    let directory = names.iter().map(|name| devices.join(name)).find(|directory| has_cpu(directory))?;
    let kind = file::parse(&directory.join("type"), "a number").ok()??;
    let event = |name: &str| {
        let terms = file::read(&directory.join("events").join(name)).ok()??;
        let number = terms.strip_prefix("event=0x")?;
        Some(Event { kind, config: [u64::from_str_radix(number, 16).ok()?, 0, 0] })
    };
    match [event("ll_cache_rd"), event("ll_cache_miss_rd")] {
        [Some(references), Some(misses)] => Some([Some(references), Some(misses)]),
        _ if has_third_level(roots, cpu) => None,
        _ => Some([event("l2d_cache"), event("l2d_cache_refill")]),
    }
}

fn has_third_level(roots: &Roots, cpu: CpuId) -> bool {
    let cache = roots.sys.join(format!("devices/system/cpu/cpu{cpu}/cache"));
    let level = |index: u32| file::parse::<u32>(&cache.join(format!("index{index}/level")), "a level");
    (0..8).any(|index| level(index).ok().flatten() == Some(3))
}

#[cfg(test)]
mod tests {
    use quell_model::Topology;

    use super::*;
    use crate::testkit::FakeTree;

    const CPU: CpuId = CpuId(0);

    fn machine(cpuinfo: &str) -> FakeTree {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
        tree.write("proc/cpuinfo", cpuinfo);
        tree
    }

    fn found(tree: &FakeTree) -> (Events, Option<Lack>) {
        let processor = Processor::read(&tree.roots());
        let events = events_of(&processor, &tree.roots(), CPU);
        (events, processor.make.lacks_last_level(&events))
    }

    #[test]
    fn intel_has_all_of_the_last_level() {
        let (events, lack) = found(&machine("processor\t: 0\nvendor_id\t: GenuineIntel"));
        let is_generic = |event: &Option<Event>| event.is_some_and(|event| event.kind == PERF_TYPE_HARDWARE);
        assert!(events[..FULL].iter().all(is_generic) && lack.is_none());
        assert_eq!(events[FULL], None, "a model that is not known");
    }

    #[test]
    fn amd_lacks_the_hit_ratio_by_name() {
        let (events, lack) = found(&machine("vendor_id\t: AuthenticAMD"));
        assert_eq!(events.map(|event| event.is_some()), [true, true, false, false, false]);
        assert!(lack.unwrap().why.contains("AMD"));
    }

    #[test]
    fn arm_counts_reads_of_the_last_level_or_the_second_where_that_is_the_last() {
        let tree = machine("processor\t: 0\nCPU implementer\t: 0x41");
        let pmu = "sys/bus/event_source/devices/armv8_pmuv3_0";
        for (file, text) in [("type", "8"), ("cpus", "0-1"), ("events/l2d_cache", "event=0x0016")] {
            tree.write(format!("{pmu}/{file}"), text);
        }
        tree.write(format!("{pmu}/events/l2d_cache_refill"), "event=0x0017");
        let (events, lack) = found(&tree);
        assert!(events[REFERENCES].is_none() && lack.unwrap().why.contains("ll_cache_rd"), "{events:?}");
        tree.remove("sys/devices/system/cpu/cpu0/cache/index3");
        let of = |config| Some(Event { kind: 8, config: [config, 0, 0] });
        assert_eq!(found(&tree).0[REFERENCES..FULL], [of(0x16), of(0x17)]);
        tree.write(format!("{pmu}/events/ll_cache_rd"), "event=0x0036");
        tree.write(format!("{pmu}/events/ll_cache_miss_rd"), "event=0x0037");
        assert_eq!(found(&tree).0[REFERENCES..FULL], [of(0x36), of(0x37)]);
    }
}
