//! Counters that are read because a plan asks for it.

use quell_model::{
    CpuId, Event, Host, Nanos, Outcome, Part, Plan, Quality, Refusal, SampleRequest, Signal, SignalSet, Support,
    Topology, Verdict, View,
};

use super::*;
use crate::HostOptions;
use crate::LinuxHost;
use crate::perf::Bench;
use crate::testkit::FakeTree;

const WANTED: SignalSet = SignalSet::of(&[Signal::MemoryBandwidth, Signal::LlcMisses]);

fn asks(signal: Signal) -> Plan {
    let request = SampleRequest { signals: SignalSet::of(&[signal]), cpus: "0-1".parse().unwrap() };
    Plan { number: 7, samples: vec![request], ..Plan::default() }
}

fn machine(bench: Option<&Bench>) -> (FakeTree, LinuxHost) {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
    tree.write("proc/cpuinfo", "vendor_id\t: GenuineIntel");
    let host = tree.host(HostOptions::default()).unwrap();
    let host = match bench {
        Some(bench) => host.with_counters(bench.counters()),
        None => host,
    };
    (tree, host)
}

#[test]
fn what_a_plan_asks_for_is_in_the_next_view() {
    let bench = Bench::default();
    let (_tree, mut host) = machine(Some(&bench));
    assert_eq!(host.capabilities().signals[&Signal::LlcMisses], Support::Yes);
    let count = |misses: u64| {
        (0..2).for_each(|cpu| bench.count(CACHE_MISSES, CpuId(cpu), misses + u64::from(cpu), Nanos::from_secs(1)));
    };
    let (mut view, mut events) = (View::new(host.topology()), Vec::new());
    count(10);
    host.observe(WANTED, &mut view, &mut events).unwrap();
    assert_eq!(view.cpus.llc_misses.len(), 2);
    assert!(view.cpus.llc_misses.iter().all(|sample| sample.quality == Quality::Absent), "no one asked");
    count(100);
    host.apply(&asks(Signal::LlcMisses), &mut events).unwrap();
    let [Event::Outcome(Outcome { plan: 7, part: Part::Sample(0), verdict: Verdict::Applied(_) }), ready] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(*ready, Event::SamplesReady);
    host.observe(WANTED, &mut view, &mut events).unwrap();
    let misses: Vec<_> = view.cpus.llc_misses.iter().map(|sample| sample.usable()).collect();
    assert_eq!(misses, [Some(110), Some(112)]);
}

#[test]
fn what_a_machine_does_not_count_it_refuses() {
    let (_tree, mut host) = machine(None);
    for signal in [Signal::LlcMisses, Signal::LlcHitRatio] {
        let mut events = Vec::new();
        host.apply(&asks(signal), &mut events).unwrap();
        let [Event::Outcome(Outcome { verdict: Verdict::Refused(Refusal::Unsupported(_)), .. })] = &events[..] else {
            panic!("{events:?}")
        };
    }
    let mut view = View::new(host.topology());
    host.observe(WANTED, &mut view, &mut Vec::new()).unwrap();
    assert!(view.cpus.llc_misses.is_empty() && view.machine.memory_bandwidth.quality == Quality::Absent);
    assert!(matches!(host.capabilities().signals[&Signal::MemoryBandwidth], Support::No { .. }));
}
