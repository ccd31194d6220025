//! Choice of the source, and the use of its values.

use quell_model::{CpuId, Topology};

use super::misses::CACHE_MISSES;
use super::*;
use crate::perf::{Bench, Event};
use crate::testkit::FakeTree;

const CAS: Event = Event { kind: 20, config: [0x04, 0, 0] };
const SECOND: Nanos = Nanos::from_secs(1);

fn machine() -> FakeTree {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
    make(&tree, "GenuineIntel");
    tree
}

fn make(tree: &FakeTree, vendor: &str) {
    tree.write("proc/cpuinfo", &format!("processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: fpu"));
}

fn controllers(tree: &FakeTree) {
    for (file, text) in [("type", "20"), ("cpumask", "0"), ("format/event", "config:0-7")] {
        tree.write(format!("sys/bus/event_source/devices/uncore_imc_0/{file}"), text);
    }
    tree.write("sys/bus/event_source/devices/uncore_imc_0/events/cas_count_read", "event=0x04");
}

fn resctrl(tree: &FakeTree) {
    tree.write("sys/fs/resctrl/info/L3_MON/mon_features", "mbm_total_bytes");
    tree.write("sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes", "1000");
}

fn bandwidth(tree: &FakeTree, bench: &Bench) -> Bandwidth {
    Bandwidth::with_counters(&tree.roots(), 2, bench.counters())
}

fn reported(bandwidth: &Bandwidth) -> (Support, Support) {
    let mut found = Capabilities::default();
    bandwidth.report(&mut found);
    let mut take = |signal| found.signals.remove(&signal).unwrap();
    (take(Signal::MemoryBandwidth), take(Signal::LlcMisses))
}

fn seen(bandwidth: &mut Bandwidth, signal: Signal) -> View {
    let mut view = View::new(Topology::synthetic(1, 1, 2, 1).into());
    bandwidth.fill(SignalSet::of(&[signal]), &mut view);
    view
}

/// A look that is due whatever the time is.
fn used_now(bandwidth: &mut Bandwidth) -> Sample<BytesPerSecond> {
    bandwidth.looked.at = None;
    seen(bandwidth, Signal::MemoryBandwidth).machine.memory_bandwidth
}

fn ask(cpus: &str) -> SampleRequest {
    SampleRequest { signals: SignalSet::of(&[Signal::LlcMisses]), cpus: cpus.parse().unwrap() }
}

#[test]
fn the_best_source_that_is_there_is_taken() {
    let (tree, bench) = (machine(), Bench::default());
    controllers(&tree);
    resctrl(&tree);
    let bandwidth = bandwidth(&tree, &bench);
    assert_eq!(reported(&bandwidth), (Support::Yes, Support::Yes));
    tree.remove("sys/bus");
    let (Support::Partly(limit), Support::Yes) = reported(&bandwidth) else { panic!() };
    assert!(limit.contains("resctrl"), "{limit}");
    tree.remove("sys/fs");
    let (Support::Partly(limit), Support::Yes) = reported(&bandwidth) else { panic!() };
    assert!(limit.contains("estimated"), "{limit}");
    make(&tree, "AuthenticAMD");
    let (Support::No { .. }, Support::Partly(limit)) = reported(&bandwidth) else { panic!() };
    assert!(limit.contains("second level"), "{limit}");
    assert!(bench.opened() > 0 && bench.open() == 0, "what was tried is closed again");
}

#[test]
fn why_there_is_none_is_told() {
    let (tree, bench) = (machine(), Bench::default());
    let bandwidth = bandwidth(&tree, &bench);
    bench.refuse(libc::ENOENT);
    let (Support::No { why, .. }, Support::No { why: no_misses, .. }) = reported(&bandwidth) else { panic!() };
    assert!(
        why.contains("memory controllers, resctrl and LLC misses") && no_misses.contains("no CPU here"),
        "{why}; {no_misses}"
    );
    bench.refuse(libc::EACCES);
    let (Support::No { why, fix }, Support::No { fix: same, .. }) = reported(&bandwidth) else { panic!() };
    assert!(why.contains("not allow") && fix == same && fix.contains("CAP_PERFMON"), "{why}; {fix}");
    controllers(&tree);
    let (Support::No { why, fix }, _) = reported(&bandwidth) else { panic!() };
    assert!(why.contains("memory controllers") && fix.contains("CAP_PERFMON"), "{why}; {fix}");
}

#[test]
fn nothing_is_counted_before_somebody_asks_and_then_each_counter_is_opened_once() {
    let (tree, bench) = (machine(), Bench::default());
    controllers(&tree);
    let mut bandwidth = bandwidth(&tree, &bench);
    let view = seen(&mut bandwidth, Signal::RunTime);
    assert_eq!(
        (bench.opened(), view.machine.memory_bandwidth.quality, view.cpus.llc_misses.len()),
        (0, Quality::Absent, 0)
    );
    for _ in 0..3 {
        bench.count(CAS, CpuId(0), 1, SECOND);
        used_now(&mut bandwidth);
    }
    assert_eq!(bench.opened(), 1);
    for _ in 0..3 {
        assert_eq!(seen(&mut bandwidth, Signal::LlcMisses).cpus.llc_misses.len(), 2);
    }
    assert_eq!((bench.opened(), bench.read()), (3, 3), "misses are read on request alone");
}

#[test]
fn the_value_stands_until_the_next_look() {
    let (tree, bench) = (machine(), Bench::default());
    controllers(&tree);
    let mut bandwidth = bandwidth(&tree, &bench);
    bench.count(CAS, CpuId(0), 1_000_000, SECOND);
    let first = used_now(&mut bandwidth);
    assert_eq!((first.value, first.quality), (BytesPerSecond(64e6), Quality::Exact));
    bench.count(CAS, CpuId(0), 3_000_000, SECOND);
    // As if a reading took a minute of CPU time: the next is due in twenty.
    bandwidth.looked.cost = Nanos::from_secs(60);
    assert_eq!(seen(&mut bandwidth, Signal::MemoryBandwidth).machine.memory_bandwidth, first);
    bandwidth.looked.cost = Nanos::ZERO;
    let until = first.at + Nanos::from_micros(100);
    while clock::now() < until {}
    let second = seen(&mut bandwidth, Signal::MemoryBandwidth).machine.memory_bandwidth;
    assert_eq!((second.value, second.quality), (BytesPerSecond(192e6), Quality::Exact));
    assert_eq!(second.window, second.at - first.at);
}

#[test]
fn a_source_that_vanishes_leaves_nothing_to_act_on() {
    let (tree, bench) = (machine(), Bench::default());
    controllers(&tree);
    let mut bandwidth = bandwidth(&tree, &bench);
    bench.count(CAS, CpuId(0), 1_000_000, SECOND);
    assert_eq!(used_now(&mut bandwidth).quality, Quality::Exact);
    // Others have the hardware: the value stays, with a lower quality.
    bench.set(CAS, CpuId(0), 1_000_000, Nanos::from_secs(2), SECOND);
    let waiting = used_now(&mut bandwidth);
    assert_eq!((waiting.value, waiting.quality), (BytesPerSecond(64e6), Quality::Estimated));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(used_now(&mut bandwidth).quality, Quality::Absent, "it counts no more");
}

#[test]
fn misses_of_all_cpus_make_an_estimate() {
    let (tree, bench) = (machine(), Bench::default());
    let mut bandwidth = bandwidth(&tree, &bench);
    for cpu in 0..2 {
        bench.count(CACHE_MISSES, CpuId(cpu), 5, SECOND);
    }
    assert_eq!(used_now(&mut bandwidth).quality, Quality::Stale, "one look is no rate");
    let begun = clock::now();
    for cpu in 0..2 {
        bench.count(CACHE_MISSES, CpuId(cpu), 1_000_000, SECOND);
    }
    std::thread::sleep(std::time::Duration::from_millis(2));
    // A sample in between takes nothing away.
    assert!(matches!(bandwidth.ask(&ask("0-1")), Some(Verdict::Applied(_))));
    assert!(bandwidth.take_samples());
    let estimate = used_now(&mut bandwidth);
    assert_eq!(estimate.quality, Quality::Estimated);
    let least = 2e6 * 64.0 / (clock::now() - begun).as_secs_f64();
    assert!(estimate.value.0 > least * 0.01 && estimate.value.0 < 2e6 * 64.0 / 0.002, "{estimate:?}, {least}");
}

#[test]
fn samples_are_of_the_cpus_that_were_asked_for() {
    let (tree, bench) = (machine(), Bench::default());
    let mut bandwidth = bandwidth(&tree, &bench);
    assert!(!bandwidth.take_samples(), "no one asked");
    bench.count(CACHE_MISSES, CpuId(1), 70, SECOND);
    let before = clock::now();
    assert!(matches!(bandwidth.ask(&ask("1,900")), Some(Verdict::Applied(_))));
    assert!(bandwidth.take_samples());
    assert!(!bandwidth.take_samples(), "once");
    let misses = seen(&mut bandwidth, Signal::LlcMisses).cpus.llc_misses;
    assert_eq!((misses[0].quality, misses[1].usable()), (Quality::Absent, Some(70)));
    assert!(misses[1].at >= before && misses[1].quality == Quality::Exact);
    // A counter that had the hardware half of the time.
    bench.set(CACHE_MISSES, CpuId(1), 100, Nanos::from_secs(3), Nanos::from_secs(2));
    bandwidth.ask(&ask("1"));
    bandwidth.sampled.at = None;
    assert!(bandwidth.take_samples());
    let misses = seen(&mut bandwidth, Signal::LlcMisses).cpus.llc_misses;
    assert_eq!((misses[1].usable(), misses[1].quality), (Some(130), Quality::Estimated));
}

#[test]
fn sampling_takes_no_more_than_its_share() {
    let (tree, bench) = (machine(), Bench::default());
    let mut bandwidth = bandwidth(&tree, &bench);
    bandwidth.ask(&ask("0-1"));
    assert!(bandwidth.take_samples());
    bandwidth.sampled.cost = Nanos::from_secs(60);
    bandwidth.ask(&ask("0-1"));
    assert!(!bandwidth.take_samples(), "it waits for its turn");
    assert_eq!(bandwidth.next_sample(), bandwidth.sampled.at.unwrap() + Nanos::from_secs(240));
    bandwidth.sampled.cost = Nanos::ZERO;
    assert!(bandwidth.take_samples());
}

#[test]
fn what_is_not_counted_is_not_sampled() {
    let (tree, bench) = (machine(), Bench::default());
    bench.refuse(libc::ENOENT);
    let mut bandwidth = bandwidth(&tree, &bench);
    let Some(Verdict::Refused(Refusal::Unsupported(why))) = bandwidth.ask(&ask("0")) else { panic!() };
    assert!(why.contains("LLC misses are not counted"), "{why}");
    let other = SampleRequest { signals: SignalSet::of(&[Signal::LlcHitRatio]), ..ask("0") };
    assert_eq!(bandwidth.ask(&other), None);
    assert!(!bandwidth.take_samples());
    assert!(seen(&mut bandwidth, Signal::LlcMisses).cpus.llc_misses.is_empty());
    assert_eq!(used_now(&mut bandwidth).quality, Quality::Absent);
}

#[test]
fn a_cpu_that_is_offline_has_no_sample_and_gets_one_later() {
    let (tree, bench) = (machine(), Bench::default());
    bench.refuse_on(CpuId(1));
    let mut bandwidth = bandwidth(&tree, &bench);
    bench.count(CACHE_MISSES, CpuId(0), 9, SECOND);
    bench.count(CACHE_MISSES, CpuId(1), 4, SECOND);
    let mut sampled = || {
        bandwidth.ask(&ask("0-1"));
        bandwidth.sampled.at = None;
        assert!(bandwidth.take_samples());
        bandwidth.misses().unwrap().samples().to_vec()
    };
    let misses = sampled();
    assert_eq!((misses[0].usable(), misses[1].usable()), (Some(9), None));
    bench.allow();
    bench.count(CACHE_MISSES, CpuId(0), 1, SECOND);
    assert_eq!(sampled()[1].usable(), None, "it is tried again after a second");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    bench.count(CACHE_MISSES, CpuId(0), 1, SECOND);
    let misses = sampled();
    assert_eq!((misses[0].usable(), misses[1].usable()), (Some(11), Some(4)));
}
