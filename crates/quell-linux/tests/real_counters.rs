//! Memory bandwidth, slowdown and LLC misses of the machine that the tests run on: what is reported is what is measured.

use std::time::Duration;

use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{
    Event, Host, Outcome, Part, Plan, Quality, SampleRequest, Signal, SignalSet, Support, Verdict, View,
};

const WANTED: SignalSet = SignalSet::of(&[Signal::MemoryBandwidth, Signal::LlcMisses]);

fn host() -> (LinuxHost, View) {
    let host = LinuxHost::new(Roots::default(), HostOptions::default()).unwrap();
    let view = View::new(host.topology());
    (host, view)
}

fn is_there(host: &LinuxHost, signal: Signal) -> bool {
    match &host.capabilities().signals[&signal] {
        Support::No { why, fix } => {
            assert!(!why.is_empty() && !fix.is_empty());
            eprintln!("{}: {why}", signal.name());
            false
        }
        Support::Yes | Support::Partly(_) => true,
    }
}

#[test]
fn the_bandwidth_is_known_where_it_is_said_to_be() {
    let (mut host, mut view) = host();
    let is_there = is_there(&host, Signal::MemoryBandwidth);
    for _ in 0..3 {
        host.observe(WANTED, &mut view, &mut Vec::new()).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let used = view.machine.memory_bandwidth;
    assert_eq!(used.quality == Quality::Absent, !is_there, "{used:?}");
    assert!(used.value.0.is_finite() && used.value.0 >= 0.0, "{used:?}");
}

#[test]
fn the_slowdown_is_felt_where_it_is_said_to_be() {
    let (mut host, mut view) = host();
    let wanted = SignalSet::of(&[Signal::MemorySlowdown]);
    if !is_there(&host, Signal::MemorySlowdown) {
        host.observe(wanted, &mut view, &mut Vec::new()).unwrap();
        assert_eq!(view.machine.memory_slowdown.quality, Quality::Absent);
        return;
    }
    let begun = std::time::Instant::now();
    while view.machine.memory_slowdown.usable().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", view.machine.memory_slowdown);
        std::thread::sleep(Duration::from_millis(1));
        host.observe(wanted, &mut view, &mut Vec::new()).unwrap();
    }
    let slowdown = view.machine.memory_slowdown.value;
    assert!(slowdown.is_finite() && slowdown > 0.0, "{slowdown}");
    host.observe(SignalSet::default(), &mut view, &mut Vec::new()).unwrap();
    assert_eq!(view.machine.memory_slowdown.quality, Quality::Absent, "no one asks");
}

#[test]
fn misses_are_sampled_where_they_are_said_to_be_counted() {
    let (mut host, mut view) = host();
    let is_there = is_there(&host, Signal::LlcMisses);
    let request = SampleRequest { signals: SignalSet::of(&[Signal::LlcMisses]), cpus: host.topology().all() };
    let mut events = Vec::new();
    host.apply(&Plan { samples: vec![request], ..Plan::default() }, &mut events).unwrap();
    let verdict = events.iter().find_map(|event| match event {
        Event::Outcome(Outcome { part: Part::Sample(0), verdict, .. }) => Some(verdict),
        _ => None,
    });
    host.observe(WANTED, &mut view, &mut Vec::new()).unwrap();
    if is_there {
        assert!(matches!(verdict, Some(Verdict::Applied(_))) && events.contains(&Event::SamplesReady), "{events:?}");
        assert!(view.cpus.llc_misses.iter().any(|sample| sample.usable().is_some()));
    } else {
        assert!(matches!(verdict, Some(Verdict::Refused(_))) && !events.contains(&Event::SamplesReady), "{events:?}");
        assert!(view.cpus.llc_misses.is_empty());
    }
}
