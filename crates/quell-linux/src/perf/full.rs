//! The event of a full super queue: the buffer of each core's requests to the last-level cache and memory.

use perf_event_open_sys::bindings::PERF_TYPE_RAW;
use quell_model::{CpuId, CpuSet};

use super::counter::Event;
use crate::{Roots, file};

/// OFFCORE_REQUESTS_BUFFER.SQ_FULL: event 0xB2, umask 0x01, "cases when offcore requests buffer cannot take more entries for core".
const CASES: u64 = 0x01b2;
/// SQ_MISC.SQ_FULL: event 0xF4, umask 0x04, the cycles in which it is full.
const CYCLES: u64 = 0x04f4;
/// XQ.FULL_CYCLES: event 0x2D, umask 0x01, counter mask 1, the same.
const CYCLES_OF_LATER: u64 = 0x0100_012d;

/// Intel's models of family 6 by event (Intel's perfmon event lists, mapfile.csv).
const MODELS: [(u64, &[u8]); 3] = [
    // Sandy Bridge, Ivy Bridge, Haswell, Broadwell, and Skylake with its kin up to Comet Lake and Cooper Lake.
    (
        CASES,
        &[
            0x2a, 0x2d, 0x3a, 0x3e, 0x3c, 0x3f, 0x45, 0x46, 0x3d, 0x47, 0x4f, 0x56, 0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6,
            0x55,
        ],
    ),
    // Ice Lake, Tiger Lake, Rocket Lake.
    (CYCLES, &[0x7d, 0x7e, 0x6a, 0x6c, 0x8c, 0x8d, 0xa7]),
    // Performance cores of Alder Lake, Raptor Lake and Meteor Lake; Sapphire, Emerald and Granite Rapids.
    (CYCLES_OF_LATER, &[0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xac, 0xb5, 0x8f, 0xcf, 0xad, 0xae]),
];

/// Does it count cycles with a full queue, and not requests that found it full?
pub(crate) fn counts_cycles(event: Event) -> bool {
    matches!(event.config[0], CYCLES | CYCLES_OF_LATER)
}

/// The event of the generation of which /proc/cpuinfo has this text; None: it is not known to have one.
pub(super) fn event(text: &str) -> Option<u64> {
    let number = |key: &str| {
        let value = text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == key)?;
        value.1.trim().parse::<u8>().ok()
    };
    let (6, model) = (number("cpu family")?, number("model")?) else { return None };
    MODELS.iter().find(|(_, models)| models.contains(&model)).map(|&(config, _)| config)
}

/// This event on a CPU; None: its kind of core has others.
pub(super) fn on(config: u64, roots: &Roots, cpu: CpuId) -> Option<Event> {
    Some(Event { kind: kind(roots, cpu)?, config: [config, 0, 0] })
}

/// The number of the PMU with this CPU; None: it is an efficiency core's, whose events are others.
fn kind(roots: &Roots, cpu: CpuId) -> Option<u32> {
    let pmu = roots.sys.join("bus/event_source/devices/cpu_core");
    match file::parse::<CpuSet>(&pmu.join("cpus"), "a CPU list").ok()? {
        Some(cpus) if cpus.contains(cpu) => file::parse(&pmu.join("type"), "a number").ok()?,
        Some(_) => None,
        None => Some(PERF_TYPE_RAW),
    }
}

#[cfg(test)]
mod tests {
    use quell_model::Topology;

    use super::*;
    use crate::testkit::FakeTree;

    fn machine(model: u8) -> FakeTree {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
        let text = format!("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\nmodel name\t: any 85");
        tree.write("proc/cpuinfo", &text);
        tree
    }

    fn of(tree: &FakeTree, cpu: u32) -> Option<Event> {
        let text = tree.read("proc/cpuinfo");
        on(event(&text)?, &tree.roots(), CpuId(cpu))
    }

    fn config(tree: &FakeTree, cpu: u32) -> Option<(u32, u64)> {
        of(tree, cpu).map(|event| (event.kind, event.config[0]))
    }

    #[test]
    fn each_generation_has_its_event() {
        assert_eq!(config(&machine(0x55), 0), Some((PERF_TYPE_RAW, 0x01b2)), "Skylake");
        assert_eq!(config(&machine(0x6a), 0), Some((PERF_TYPE_RAW, 0x04f4)), "Ice Lake");
        assert_eq!(config(&machine(0x8f), 0), Some((PERF_TYPE_RAW, 0x0100_012d)), "Sapphire Rapids");
        assert_eq!(config(&machine(0x1a), 0), None, "Nehalem");
        assert!(!counts_cycles(of(&machine(0x55), 0).unwrap()));
        assert!(counts_cycles(of(&machine(0x8f), 0).unwrap()));
        let mut all: Vec<u8> = MODELS.iter().flat_map(|(_, models)| models.iter().copied()).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "a model is in one line");
    }

    #[test]
    fn efficiency_cores_have_none() {
        let tree = machine(0x97);
        tree.write("sys/bus/event_source/devices/cpu_core/type", "4");
        tree.write("sys/bus/event_source/devices/cpu_core/cpus", "0");
        assert_eq!((config(&tree, 0), config(&tree, 1)), (Some((4, 0x0100_012d)), None));
    }
}
