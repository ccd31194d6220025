//! What policies see of caches and memory, and what they can set.

use quell_model::{
    Class, CpuId, CpuSet, Event, Host, Knob, KnobKind, KnobSetting, Nanos, Part, Plan, Quality, SampleRequest, Signal,
    SignalSet, Stack, Support, Target, Topology, Verdict, View, Wake, WorkloadId,
};
use quell_policy::AnyPolicy;
use quell_sim::contention::{ContentionSpec, MeasuredOfMemory, Meter, Meters, ProfileName};
use quell_sim::host::{capabilities, drive};
use quell_sim::machine::Preset;
use quell_sim::scenario::{SHIPPED, Scenario};
use quell_sim::workload::BatchSpec;
use quell_sim::{KernelConfig, Machine, SimHost, WorkloadSpec};

use crate::contention::pinned;

fn caladan(counters: Meters) -> Machine {
    let machine = Preset::named("caladan-socket").unwrap().machine();
    Machine { contention: ContentionSpec { counters, ..ContentionSpec::default() }, ..machine }
}

fn host(counters: Meters) -> SimHost {
    let workloads = [pinned("streaming", "streaming", 0, 4), pinned("computing", "computing", 6, 4)];
    SimHost::new(caladan(counters), KernelConfig::default(), &workloads, 5, false).unwrap()
}

const ALL: SignalSet = SignalSet::of(&[
    Signal::MemoryBandwidth,
    Signal::MemorySlowdown,
    Signal::WorkloadBandwidth,
    Signal::LlcHitRatio,
    Signal::InstructionRate,
    Signal::CycleRate,
    Signal::BufferFullRate,
    Signal::LlcMisses,
]);

fn pass(host: &mut SimHost, until: Nanos) {
    while host.sim().now() < until {
        host.wait(Wake::At(until)).unwrap();
        host.observe(SignalSet::default(), &mut host.view(), &mut Vec::new()).unwrap();
    }
}

fn look(host: &mut SimHost) -> View {
    let mut view = host.view();
    host.observe(ALL, &mut view, &mut Vec::new()).unwrap();
    view
}

#[test]
fn exact_counters_are_what_happened() {
    let mut host = host(Meters::default());
    pass(&mut host, Nanos::from_millis(100));
    look(&mut host);
    let before = (host.sim().memory_bytes(), host.sim().counted());
    pass(&mut host, Nanos::from_millis(110));
    let view = look(&mut host);
    let (bytes, counted) = (host.sim().memory_bytes() - before.0, host.sim().counted());
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
    near(view.machine.memory_bandwidth.value.0, bytes / 0.01);
    assert_eq!(
        (view.machine.memory_bandwidth.at, view.machine.memory_bandwidth.window),
        (host.sim().now(), Nanos::from_millis(10))
    );
    let done = counted[0].since(&before.1[0]);
    near(view.workloads.memory_bandwidth[0].value.0, done.bytes / 0.01);
    near(view.workloads.instruction_rate[0].value, done.instructions / 0.01);
    near(view.workloads.cycle_rate[0].value, done.cycles / 0.01);
    near(view.workloads.buffer_full_rate[0].value, done.buffer_full / 0.01);
    assert_eq!(view.workloads.llc_hit_ratio[0].value, 0.0);
    assert!(view.workloads.llc_hit_ratio[1].value > 0.0);
    assert!(view.workloads.memory_bandwidth[1].value.0 < view.workloads.memory_bandwidth[0].value.0 / 100.0);
    // No one looked in between: the same again, from no time at all.
    assert_eq!(look(&mut host).machine.memory_bandwidth, view.machine.memory_bandwidth);
}

#[test]
fn misses_are_sampled_on_request_and_come_as_late_as_the_scenario_says() {
    let late = Nanos::from_micros(2);
    let mut host = host(Meters { misses: Meter { late, ..Meter::default() }, ..Meters::default() });
    pass(&mut host, Nanos::from_millis(50));
    assert!(look(&mut host).cpus.llc_misses.iter().all(|sample| sample.quality == Quality::Absent));
    let cpus: CpuSet = [CpuId(0), CpuId(7)].into_iter().collect();
    let signals = SignalSet::of(&[Signal::LlcMisses]);
    let mut events = Vec::new();
    host.apply(&Plan { samples: vec![SampleRequest { signals, cpus }], ..Plan::default() }, &mut events).unwrap();
    assert!(matches!(&events[..], [Event::Outcome(outcome)] if matches!(outcome.verdict, Verdict::Applied(_))));
    let asked = host.sim().now();
    let mut seen = Vec::new();
    while !seen.contains(&Event::SamplesReady) {
        host.wait(Wake::At(asked + Nanos::from_millis(1))).unwrap();
        host.observe(ALL, &mut host.view(), &mut seen).unwrap();
    }
    assert_eq!(host.sim().now(), asked + late);
    let samples = look(&mut host).cpus.llc_misses;
    assert_eq!((samples[0].at, samples[1].quality), (asked + late, Quality::Absent));
    assert!(samples[0].value > 100 * samples[7].value && samples[7].quality == Quality::Exact);
}

#[test]
fn noise_and_delay_are_as_the_scenario_says() {
    let noisy = |noise: f64| Meters { bus: Meter { noise, ..Meter::default() }, ..Meters::default() };
    let series = |meters: Meters| {
        let mut host = host(meters);
        pass(&mut host, Nanos::from_millis(50));
        look(&mut host);
        let looks = (1..=400).map(|turn| {
            pass(&mut host, Nanos::from_millis(50) + Nanos::from_micros(50 * turn));
            look(&mut host).machine.memory_bandwidth
        });
        looks.collect::<Vec<_>>()
    };
    let (exact, noisy) = (series(noisy(0.0)), series(noisy(0.05)));
    let errors: Vec<f64> = exact.iter().zip(&noisy).map(|(exact, noisy)| noisy.value.0 / exact.value.0 - 1.0).collect();
    let mean = errors.iter().sum::<f64>() / 400.0;
    let variance = errors.iter().map(|error| (error - mean) * (error - mean)).sum::<f64>() / 399.0;
    assert!(mean.abs() < 0.01 && (0.04 * 0.04..0.06 * 0.06).contains(&variance), "{mean} {variance}");
    let late = Meter { late: Nanos::from_millis(1), every: Nanos::from_micros(200), ..Meter::default() };
    let delayed = series(Meters { bus: late, ..Meters::default() });
    let (last, now) = (delayed[399], exact[399].at);
    assert!(now - last.at >= Nanos::from_millis(1) && now - last.at <= Nanos::from_micros(1_200), "{last:?}");
    assert!(last.window >= Nanos::from_micros(200));
}

/// CMT "takes 112 ms … to stabilize": half of that after a change, most of it shows, and not all.
#[test]
fn what_settles_slowly_follows_slowly() {
    let slow = Meter { settles: Nanos::from_millis(112), ..Meter::default() };
    let turn = |profile: &str, lasts: u64| quell_sim::workload::Turn {
        profile: ProfileName::Known(profile.into()),
        lasts: Some(Nanos::from_millis(lasts)),
        work: None,
    };
    let batch = Some(BatchSpec { cycle: vec![turn("computing", 500), turn("streaming", 5_000)], ..<_>::default() });
    let workload = WorkloadSpec { batch, ..WorkloadSpec::new("both", Class::BestEffort) };
    let machine = caladan(Meters { bandwidth: slow, ..Meters::default() });
    let mut host = SimHost::new(machine, KernelConfig::default(), &[workload], 5, false).unwrap();
    let mut at = |millis: u64| {
        let from = host.sim().now().0 / 1_000_000;
        (from + 1..=millis).for_each(|millis| {
            pass(&mut host, Nanos::from_millis(millis));
            look(&mut host);
        });
        look(&mut host).workloads.memory_bandwidth[0].value.0
    };
    let [before, half, whole, end] = [500, 556, 612, 1_500].map(&mut at);
    assert!(before < end / 50.0);
    assert!((0.70..0.85).contains(&(half / end)), "{}", half / end);
    assert!((0.93..0.97).contains(&(whole / end)), "{}", whole / end);
}

#[test]
fn ways_and_frequencies_act_after_their_latency() {
    let mut host = host(Meters::default());
    pass(&mut host, Nanos::from_millis(200));
    let set = |host: &mut SimHost, target: Target, knob: Knob| {
        let mut events = Vec::new();
        let plan = Plan { knobs: vec![KnobSetting { target, knob }], ..Plan::default() };
        host.apply(&plan, &mut events).unwrap();
        match events.remove(0) {
            Event::Outcome(outcome) => outcome.verdict,
            other => panic!("{other:?}"),
        }
    };
    let all = host.sim().llc_bytes(0);
    let streaming = Target::Workload(WorkloadId(0));
    for bad in [0, 0b101, 1 << 20] {
        assert!(matches!(set(&mut host, streaming, Knob::CacheWays(bad)), Verdict::Refused(_)), "{bad}");
    }
    // The mask bounds what is filled; who comes into the other ways takes them over.
    assert!(matches!(set(&mut host, streaming, Knob::CacheWays(0b11)), Verdict::Applied(_)));
    pass(&mut host, Nanos::from_millis(600));
    assert!(host.sim().llc_bytes(0) < all && host.sim().llc_bytes(1) > 0.0);
    let rate = |host: &mut SimHost, millis: u64| {
        let (before, from) = (host.sim().counted()[1].instructions, host.sim().now());
        pass(host, from + Nanos::from_millis(millis));
        (host.sim().counted()[1].instructions - before) / millis as f64
    };
    let before = rate(&mut host, 1);
    for cpu in 6..10 {
        assert!(matches!(
            set(&mut host, Target::Cpu(CpuId(cpu)), Knob::MaxFrequencyKhz(1_200_000)),
            Verdict::Applied(_)
        ));
    }
    let (soon, _, later) = (rate(&mut host, 1), rate(&mut host, 2), rate(&mut host, 1));
    assert!((soon / before - 1.0).abs() < 0.01 && (later / before - 12.0 / 22.0).abs() < 0.01, "{soon} {later}");
}

#[test]
fn without_contention_signals_and_ways_are_refused_with_the_fix() {
    for (measured, is_there) in [(MeasuredOfMemory::Nothing, false), (MeasuredOfMemory::Everything, true)] {
        let has = capabilities(false.into(), measured);
        let yes = |support: &Support| *support == Support::Yes;
        assert_eq!(yes(&has.signals[&Signal::LlcMisses]), is_there);
        assert_eq!(yes(&has.knobs[&KnobKind::CacheWays]), is_there);
    }
    let hogs = WorkloadSpec { batch: Some(BatchSpec::default()), ..WorkloadSpec::new("hogs", Class::BestEffort) };
    let mut host = SimHost::new(Topology::synthetic(1, 1, 2, 1), KernelConfig::default(), &[hogs], 1, false).unwrap();
    let Support::No { fix, .. } = &host.capabilities().signals[&Signal::MemoryBandwidth] else { panic!() };
    assert!(fix.contains("profiles"));
    let sample = SampleRequest { signals: SignalSet::of(&[Signal::LlcMisses]), cpus: CpuSet::first(2) };
    let mut events = Vec::new();
    host.apply(&Plan { samples: vec![sample], ..Plan::default() }, &mut events).unwrap();
    assert!(matches!(&events[..], [Event::Outcome(outcome)] if matches!(outcome.verdict, Verdict::Refused(_))));
}

/// A virtual machine's: nothing is counted, and memory is felt to be slow.
#[test]
fn without_counters_the_slowdown_is_all_that_is_known() {
    let at_rest = |streaming: u32| {
        let workloads = [pinned("streaming", "streaming", 0, streaming), pinned("computing", "computing", 16, 4)];
        let counters = Meters { slowdown: Meter::default(), ..Meters::named("canary").unwrap() };
        let mut host = SimHost::new(caladan(counters), KernelConfig::default(), &workloads, 5, false).unwrap();
        pass(&mut host, Nanos::from_millis(100));
        look(&mut host);
        pass(&mut host, Nanos::from_millis(110));
        let view = look(&mut host);
        assert_eq!((view.machine.memory_bandwidth.quality, view.cpus.llc_misses.len()), (Quality::Absent, 0));
        let sample = SampleRequest { signals: SignalSet::of(&[Signal::LlcMisses]), cpus: CpuSet::first(2) };
        let mut events = Vec::new();
        host.apply(&Plan { samples: vec![sample], ..Plan::default() }, &mut events).unwrap();
        assert!(matches!(&events[..], [Event::Outcome(outcome)] if matches!(outcome.verdict, Verdict::Refused(_))));
        let has = host.capabilities();
        assert!(matches!(&has.signals[&Signal::LlcMisses], Support::No { why, .. } if why.contains("no counters")));
        assert_eq!(has.signals[&Signal::MemorySlowdown], Support::Yes);
        view.machine.memory_slowdown.usable().unwrap()
    };
    let [quiet, some, many] = [1, 4, 16].map(at_rest);
    // The curve of contention/memory.rs: 1.003 at 15 % of the bandwidth, 2.8 at 95 %.
    assert!(quiet < 1.1 && quiet < some && some < many && many > 2.0, "{quiet} {some} {many}");
}

fn contended(counters: &str) -> Scenario {
    let shipped = SHIPPED.iter().find(|shipped| shipped.name == "contended").unwrap();
    let set = format!("contention.counters={counters}");
    Scenario::parse(std::path::Path::new("contended"), shipped.text, &[set]).unwrap()
}

/// Nanoseconds that the streaming work runs in its first turn of computing and of streaming.
fn streamed(counters: &str, thresh_slowdown: Option<f64>) -> u64 {
    let scenario = contended(counters);
    let mut spec = scenario.policies.iter().find(|policy| policy.name == "caladan").unwrap().clone();
    drop(spec.parameters.remove("thresh_bw"));
    thresh_slowdown.map(|times| spec.parameters.insert("thresh_slowdown".into(), times.into()));
    let mut policy = AnyPolicy::build("caladan", spec.deserializer()).unwrap();
    let machine = scenario.machine().unwrap();
    let mut host = SimHost::new(machine, scenario.kernel.clone(), &scenario.workloads, 1, true).unwrap();
    let mut stack = Stack::of_one(&mut policy, host.view());
    drive(&mut host, &mut stack, Nanos::from_millis(100), |_, _| {});
    host.sim().stats()[1].run_time
}

#[test]
fn caladan_throttles_by_the_slowdown_alone() {
    let freely = streamed("canary", None);
    let throttled = streamed("canary", Some(1.3));
    assert!(throttled * 10 < freely * 9, "{throttled} {freely}");
}

/// Caladan's controllers act on what they see: samples are taken, siblings banned, and the streaming work loses CPUs.
#[test]
fn caladans_controllers_act() {
    let scenario = contended("counters");
    let spec = scenario.policies.iter().find(|policy| policy.name == "caladan").unwrap();
    let run = |without: &[&str]| {
        let mut spec = spec.clone();
        // As in the paper: the only rules are bans.
        spec.parameters.insert("rules".into(), false.into());
        without.iter().for_each(|&key| drop(spec.parameters.remove(key)));
        let mut policy = AnyPolicy::build("caladan", spec.deserializer()).unwrap();
        let machine = scenario.machine().unwrap();
        let mut host = SimHost::new(machine, scenario.kernel.clone(), &scenario.workloads, 1, true).unwrap();
        let mut stack = Stack::of_one(&mut policy, host.view());
        let (mut sampled, mut banned) = (0, 0);
        // One turn of computing and one of streaming.
        drive(&mut host, &mut stack, Nanos::from_millis(100), |_, stack| {
            let done = stack.stepped().flat_map(|layer| &layer.outcomes).filter_map(|event| match event {
                Event::Outcome(outcome) if matches!(outcome.verdict, Verdict::Applied(_)) => Some(outcome.part),
                _ => None,
            });
            for part in done {
                sampled += u32::from(matches!(part, Part::Sample(_)));
                banned += u32::from(matches!(part, Part::Rule(_)));
            }
        });
        let streamed = host.sim().stats()[1].run_time;
        (sampled, banned, streamed)
    };
    let (sampled, banned, streamed) = run(&[]);
    assert!(sampled > 100 && banned > 100, "{sampled} {banned}");
    let (sampled, _, streamed_freely) = run(&["thresh_bw"]);
    assert_eq!(sampled, 0);
    assert!(streamed * 10 < streamed_freely * 9, "{streamed} {streamed_freely}");
    let (_, rules, _) = run(&["thresh_ht"]);
    assert!(rules < banned / 2, "{rules} {banned}");
}
