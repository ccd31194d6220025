//! Scenarios on the toy host; the assertions are sentences of the paper.

use quell_model::{CpuCount, CpuId, CpuSet, KnobKind, Layer, LeaseLimits, Stack, Topology, WorkloadId};
use quell_toy::{Machine, ToyHost, ToyWorkload};

use super::*;
use crate::kit::contention::Resource;

fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

struct Scene {
    host: ToyHost,
    stack: Stack<His>,
    /// The technique of each plan with knobs.
    turned: Vec<Vec<KnobKind>>,
    notes: Vec<String>,
}

impl Scene {
    fn new(cpus: u32) -> Scene {
        let mut host = ToyHost::new(Topology::synthetic(1, 1, cpus, 1), Machine::default());
        host.limit_leases(LeaseLimits { duty_per_mille: 250, ..LeaseLimits::default() });
        let stack = Stack::of_one(His::new(HisConfig::default()), host.view());
        Scene { host, stack, turned: Vec::new(), notes: Vec::new() }
    }

    fn foreground(&mut self, load: fn(ToyWorkload) -> ToyWorkload) -> WorkloadId {
        self.host.attach(load(ToyWorkload::lc("foreground", CpuCount::whole(2)).threads(&[1.0, 1.0])))
    }

    fn background(&mut self, bandwidth: f64) -> WorkloadId {
        self.host.attach(ToyWorkload::be("background").threads(&[1.0; 6]).bandwidth(bandwidth))
    }

    fn run(&mut self, span: Nanos) {
        let until = self.host.now() + span;
        let (turned, notes) = (&mut self.turned, &mut self.notes);
        quell_toy::run(&mut self.host, &mut self.stack, until, |_, stack| {
            for Layer { plan, .. } in stack.stepped() {
                let mut kinds: Vec<KnobKind> = plan.knobs.iter().map(|setting| setting.knob.kind()).collect();
                kinds.dedup();
                turned.extend((!kinds.is_empty()).then_some(kinds));
                notes.extend(plan.notes.iter().map(|note| note.text.to_string()));
            }
        });
    }

    /// The first technique that was set after the first allocation of cores.
    fn first_isolation(&self) -> Option<KnobKind> {
        self.turned.iter().skip(1).flatten().copied().next()
    }

    /// Contention for a resource as the next look would see it.
    fn contention(&mut self, resource: Resource) -> f64 {
        self.run(millis(300));
        let solo = self.stack.first().policy.solo().expect("there is solo-run data").usage;
        let columns = &self.stack.view().workloads;
        match resource {
            Resource::Llc => columns.llc_hit_ratio[0].value - solo.llc_hit_ratio.unwrap(),
            Resource::MemoryBandwidth => columns.memory_bandwidth[0].value.0 / solo.memory_bandwidth.unwrap() - 1.0,
            Resource::Cpu => unreachable!("not looked at here"),
        }
    }
}

#[test]
fn without_data_the_foreground_is_profiled_alone_first() {
    let mut scene = Scene::new(8);
    let foreground = scene.foreground(|load| load.cache(8.0, 0.9));
    let background = scene.background(5e9);
    scene.run(millis(900));
    // The first allocation of cores settles (3 ms on 6 CPUs); from then on the background is stopped.
    assert_eq!(scene.host.run_time(background), millis(18));
    assert!(scene.host.run_time(foreground) > millis(1700));
    assert_eq!(scene.stack.first().policy.solo(), None);
    scene.run(millis(200));
    let solo = scene.stack.first().policy.solo().expect("the solo run is over").usage;
    assert!((solo.llc_hit_ratio.unwrap() - 0.9).abs() < 1e-6);
    assert!((solo.cpus.unwrap() - 2.0).abs() < 0.02);
    assert!(scene.host.run_time(background) > millis(100), "and goes on");
}

#[test]
fn llc_contention_is_met_by_cache_ways_until_it_is_below_five_percent() {
    let mut scene = Scene::new(8);
    let foreground = scene.foreground(|load| load.cache(13.0, 0.9));
    let background = scene.background(4e9);
    scene.run(millis(1050));
    assert_eq!(scene.turned.len(), 1, "only the initial cores so far: {:?}", scene.turned);
    scene.run(Nanos::from_secs(4));
    assert_eq!(scene.first_isolation(), Some(KnobKind::CacheWays), "hardware first");
    assert!(scene.turned[1..].iter().flatten().all(|&kind| kind == KnobKind::CacheWays), "{:?}", scene.turned);
    let ways = (scene.host.ways_of(foreground), scene.host.ways_of(background));
    assert_eq!(ways.0 & ways.1, 0, "strict partitions");
    assert_eq!(ways.0.count_ones(), 13, "one way at a time, and no more than needed: {ways:x?}");
    assert!(scene.contention(Resource::Llc) > -0.05);
}

#[test]
fn bandwidth_contention_is_met_by_the_backgrounds_frequency_then_by_cores() {
    let mut scene = Scene::new(8);
    scene.foreground(|load| load.bandwidth(8e9));
    let background = scene.background(5e9);
    scene.run(Nanos::from_secs(5));
    assert_eq!(scene.first_isolation(), Some(KnobKind::MaxFrequencyKhz), "hardware first: {:?}", scene.turned);
    let its = scene.host.cpus_of(background).lowest().unwrap();
    assert!(scene.host.max_khz(its) < 2_100_000);
    assert_eq!(scene.host.max_khz(CpuId(0)), 2_100_000, "the foreground keeps its speed");
    assert!(scene.contention(Resource::MemoryBandwidth) > -0.05);

    // "The per-core DVFS may be not enough for mitigating severe memory contention": then cores.
    let mut scene = Scene::new(8);
    scene.foreground(|load| load.bandwidth(8e9));
    let background = scene.background(12e9);
    scene.run(Nanos::from_secs(8));
    let kinds: Vec<KnobKind> = scene.turned.iter().skip(1).map(|kinds| kinds[0]).collect();
    let cores = kinds.iter().position(|&kind| kind == KnobKind::Cpus).expect("cores in the end");
    assert_eq!(kinds[..cores], [KnobKind::MaxFrequencyKhz; 9], "all ten frequencies first");
    assert!(scene.host.cpus_of(background).len() < 6);
    assert!(scene.contention(Resource::MemoryBandwidth) > -0.05);
}

#[test]
fn cpu_contention_is_met_by_cores() {
    let mut scene = Scene::new(8);
    let foreground =
        scene.host.attach(ToyWorkload::lc("foreground", CpuCount::whole(2)).threads(&[1.0, 1.0, 1.0, 1.0]));
    let background = scene.background(0.0);
    scene.run(Nanos::from_secs(3));
    assert_eq!(scene.host.cpus_of(foreground).len(), 4, "as its demand says");
    assert_eq!(scene.host.cpus_of(background).len(), 4);
}

#[test]
fn without_contention_nothing_is_isolated() {
    let mut scene = Scene::new(8);
    scene.foreground(|load| load);
    scene.background(0.1e9);
    scene.run(Nanos::from_secs(3));
    assert_eq!(scene.turned, [[KnobKind::Cpus]]);
}

#[test]
fn another_phase_is_profiled_again() {
    let mut scene = Scene::new(8);
    let foreground = scene.foreground(|load| load.bandwidth(1e9));
    scene.background(0.1e9);
    scene.run(Nanos::from_secs(6));
    let before = scene.stack.first().policy.solo().unwrap();
    scene.host.change(foreground, |load| load.bandwidth = quell_model::BytesPerSecond(3e9));
    scene.run(Nanos::from_secs(3));
    let after = scene.stack.first().policy.solo().unwrap();
    assert!(after.at > before.at);
    assert!((after.usage.memory_bandwidth.unwrap() / before.usage.memory_bandwidth.unwrap() - 3.0).abs() < 0.1);
    assert!(scene.notes.iter().any(|note| note.contains("phase changed")));
}

#[test]
fn outdated_data_is_measured_again_and_the_isolation_stays() {
    let mut scene = Scene::new(8);
    let policy = His::new(HisConfig { outdated: Nanos::from_secs(5), ..HisConfig::default() });
    scene.stack = Stack::of_one(policy, scene.host.view());
    scene.foreground(|load| load.cache(13.0, 0.9));
    scene.background(4e9);
    scene.run(Nanos::from_secs(4));
    let (first, isolation) = (scene.stack.first().policy.solo().unwrap(), scene.stack.first().policy.isolation());
    scene.run(Nanos::from_secs(5));
    assert!(scene.stack.first().policy.solo().unwrap().at > first.at);
    assert_eq!(scene.stack.first().policy.isolation(), isolation);
}

#[test]
fn a_host_without_cache_partitioning_uses_cores() {
    let mut scene = Scene::new(8);
    scene.foreground(|load| load.cache(13.0, 0.9));
    let background = scene.background(4e9);
    scene.host.faults.without = Some(KnobKind::CacheWays);
    scene.run(Nanos::from_secs(4));
    assert!(scene.host.cpus_of(background).len() < 6);
    assert!(scene.notes.iter().any(|note| note.contains("cache ways")), "{:?}", scene.notes);
}

#[test]
fn what_is_not_measured_is_not_guessed() {
    let mut scene = Scene::new(8);
    scene.foreground(|load| load.cache(13.0, 0.9));
    let background = scene.background(4e9);
    scene.host.blind = true;
    scene.run(Nanos::from_secs(5));
    assert_eq!(scene.turned, [[KnobKind::Cpus]]);
    assert!(scene.host.run_time(background) > Nanos::from_secs(4), "no solo run without a signal to profile");
    assert_eq!(scene.notes.iter().filter(|note| note.contains("HIS holds")).count(), 1);
}

#[test]
fn the_isolation_ends_with_its_foreground() {
    let mut scene = Scene::new(8);
    let foreground = scene.foreground(|load| load.cache(13.0, 0.9).bandwidth(8e9));
    let background = scene.background(5e9);
    scene.run(Nanos::from_secs(6));
    assert!(scene.turned.len() > 3);
    scene.host.faults.knobs_refused = 1.0;
    scene.host.detach(foreground);
    scene.run(millis(10));
    scene.host.faults.knobs_refused = 0.0;
    scene.run(Nanos::from_secs(2));
    assert_eq!(scene.host.cpus_of(background), CpuSet::first(8));
    assert_eq!(scene.host.ways_of(background), 0xf_ffff);
    assert!((0..8).all(|cpu| scene.host.max_khz(CpuId(cpu)) == 2_100_000));
}
