//! Scenarios on the simulated host; the assertions are sentences of the paper.

use quell_model::{
    CpuCount, CpuId, CpuSet, Host, KnobKind, Layer, LeaseLimits, SignalSet, Stack, Topology, WorkloadId,
};
use quell_sim::contention::ProfileName;
use quell_sim::workload::{BatchSpec, Turn};
use quell_sim::{Faulty, KernelConfig, SimHost, WorkloadSpec};

use super::*;
use crate::kit::contention::Resource;

fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

fn known(profile: &str) -> ProfileName {
    ProfileName::Known(profile.into())
}

/// Without trials, which the text does not have.
fn by_the_text() -> HisConfig {
    HisConfig { verify: false, ..HisConfig::default() }
}

struct Scene {
    host: Faulty<SimHost>,
    stack: Stack<His>,
    /// The technique of each plan with knobs.
    turned: Vec<Vec<KnobKind>>,
    notes: Vec<String>,
    trials: Vec<quell_model::Trial>,
}

impl Scene {
    fn new(cpus: u32) -> Scene {
        let topology = Topology::synthetic(1, 1, cpus, 1);
        let mut host = Faulty::new(SimHost::new(topology, KernelConfig::default(), &[], 1, false).unwrap(), 1);
        host.limit_leases(LeaseLimits { duty_per_mille: 250, ..LeaseLimits::default() });
        let stack = Stack::of_one(His::new(by_the_text()), host.view());
        Scene { host, stack, turned: Vec::new(), notes: Vec::new(), trials: Vec::new() }
    }

    /// Two busy threads that request two CPUs.
    fn foreground(&mut self, profile: &str) -> WorkloadId {
        let foreground = WorkloadSpec::lc("foreground", CpuCount::whole(2)).busy(2);
        self.host.attach(&WorkloadSpec { profile: Some(known(profile)), ..foreground }).unwrap()
    }

    /// This many busy threads.
    fn background(&mut self, threads: u32, profile: &str) -> WorkloadId {
        let background = WorkloadSpec::be("background").busy(threads);
        self.host.attach(&WorkloadSpec { profile: Some(known(profile)), ..background }).unwrap()
    }

    /// CPU time that a workload has used.
    fn run_time(&self, id: WorkloadId) -> Nanos {
        Nanos(self.host.sim().stats()[id.index()].run_time)
    }

    fn run(&mut self, span: Nanos) {
        let until = self.host.now() + span;
        while self.host.now() < until {
            let wake = self.stack.turn(&mut self.host).unwrap();
            for Layer { plan, .. } in self.stack.stepped() {
                let mut kinds: Vec<KnobKind> = plan.knobs.iter().map(|setting| setting.knob.kind()).collect();
                kinds.dedup();
                self.turned.extend((!kinds.is_empty()).then_some(kinds));
                self.trials.extend(&plan.trials);
                self.notes.extend(plan.notes.iter().map(|note| note.text.to_string()));
            }
            self.host.wait(wake.sooner(Wake::At(until))).unwrap();
        }
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
    let foreground = scene.foreground("memcached");
    let background = scene.background(6, "streaming");
    scene.run(millis(900));
    // The first allocation of cores settles; from then on the background is stopped.
    assert!(scene.run_time(background) < millis(60), "{}", scene.run_time(background));
    assert!(scene.run_time(foreground) > millis(1700));
    assert_eq!(scene.stack.first().policy.solo(), None);
    scene.run(millis(200));
    let solo = scene.stack.first().policy.solo().expect("the solo run is over").usage;
    assert!((solo.cpus.unwrap() - 2.0).abs() < 0.02);
    let alone = solo.llc_hit_ratio.unwrap();
    assert!(alone > 0.8, "the whole cache is its own: {alone}");
    assert!(scene.run_time(background) > millis(100), "and goes on");
}

#[test]
fn llc_contention_is_met_by_cache_ways_until_it_is_below_five_percent() {
    let mut scene = Scene::new(8);
    let foreground = scene.foreground("silo");
    let background = scene.background(6, "stress-ng-memory");
    scene.run(millis(1050));
    assert_eq!(scene.turned.len(), 1, "only the initial cores so far: {:?}", scene.turned);
    scene.run(Nanos::from_secs(6));
    assert_eq!(scene.first_isolation(), Some(KnobKind::CacheWays), "hardware first");
    let ways = (scene.host.cache_ways(foreground).unwrap(), scene.host.cache_ways(background).unwrap());
    assert_eq!(ways.0 & ways.1, 0, "strict partitions");
    assert!((10..15).contains(&ways.0.count_ones()), "half of them, then one way at a time: {ways:x?}");
    assert!(scene.contention(Resource::Llc) > -0.05);
}

#[test]
fn bandwidth_contention_is_met_by_the_backgrounds_frequency_then_by_cores() {
    let mut scene = Scene::new(8);
    scene.foreground("streaming");
    let background = scene.background(6, "stress-ng-memory");
    scene.run(Nanos::from_secs(8));
    assert_eq!(scene.first_isolation(), Some(KnobKind::MaxFrequencyKhz), "hardware first");
    let its = scene.host.cpus_of(background).lowest().unwrap();
    assert!(scene.host.max_khz(its) < 2_100_000);
    assert_eq!(scene.host.max_khz(CpuId(0)), 2_100_000, "the foreground keeps its speed");
    assert!(scene.contention(Resource::MemoryBandwidth) > -0.05);

    let mut scene = Scene::new(8);
    scene.foreground("streaming");
    let background = scene.background(6, "streaming");
    scene.run(Nanos::from_secs(8));
    let kinds: Vec<KnobKind> = scene.turned.iter().skip(1).map(|kinds| kinds[0]).collect();
    assert_eq!(scene.first_isolation(), Some(KnobKind::MaxFrequencyKhz), "hardware first: {kinds:?}");
    // "The per-core DVFS may be not enough for mitigating severe memory contention": then cores.
    assert!(kinds.contains(&KnobKind::Cpus), "cores in the end");
    let its = scene.host.cpus_of(background).lowest().unwrap();
    assert!(scene.host.max_khz(its) < 2_100_000);
    assert_eq!(scene.host.max_khz(CpuId(0)), 2_100_000, "the foreground keeps its speed");
    assert!(scene.host.cpus_of(background).len() < 6);
    assert!(scene.contention(Resource::MemoryBandwidth) > -0.05);
}

#[test]
fn cpu_contention_is_met_by_cores() {
    let mut scene = Scene::new(8);
    let foreground = WorkloadSpec::lc("foreground", CpuCount::whole(2)).busy(6);
    let foreground = scene.host.attach(&WorkloadSpec { profile: Some(known("memcached")), ..foreground }).unwrap();
    let background = scene.background(6, "computing");
    scene.run(Nanos::from_secs(3));
    let cores = scene.host.cpus_of(foreground).len();
    assert_eq!(cores, 3, "no more than two threads a core");
    assert!(scene.host.cpus_of(background).len() <= 8 - cores);
}

#[test]
fn without_contention_nothing_is_isolated() {
    let mut scene = Scene::new(8);
    scene.foreground("streaming");
    scene.background(6, "computing");
    scene.run(Nanos::from_secs(3));
    assert_eq!(scene.turned, [[KnobKind::Cpus]]);
}

#[test]
fn another_phase_is_profiled_again() {
    let mut scene = Scene::new(8);
    let turn = |profile: &str| Turn { profile: known(profile), lasts: Some(Nanos::from_secs(6)), work: None };
    let batch = Some(BatchSpec { phases: None, cycle: vec![turn("memcached"), turn("streaming")] });
    let foreground = WorkloadSpec { threads: 2, batch, ..WorkloadSpec::lc("foreground", CpuCount::whole(2)) };
    scene.host.attach(&foreground).unwrap();
    scene.background(6, "computing");
    scene.run(Nanos::from_secs(6));
    let before = scene.stack.first().policy.solo().unwrap();
    scene.run(Nanos::from_secs(3));
    let after = scene.stack.first().policy.solo().unwrap();
    assert!(after.at > before.at);
    assert!(after.usage.memory_bandwidth.unwrap() > 2.0 * before.usage.memory_bandwidth.unwrap());
    assert!(scene.notes.iter().any(|note| note.contains("phase changed")));
}

#[test]
fn outdated_data_is_measured_again_and_the_isolation_stays() {
    let mut scene = Scene::new(8);
    let policy = His::new(HisConfig { outdated: Nanos::from_secs(7), ..by_the_text() });
    scene.stack = Stack::of_one(policy, scene.host.view());
    scene.foreground("img-dnn");
    scene.background(6, "stress-ng-memory");
    scene.run(Nanos::from_secs(6));
    let (first, isolation) = (scene.stack.first().policy.solo().unwrap(), scene.stack.first().policy.isolation());
    assert!(isolation.is_some_and(|isolation| isolation.ways.is_some()), "{isolation:?}");
    scene.run(Nanos::from_secs(5));
    assert!(scene.stack.first().policy.solo().unwrap().at > first.at);
    assert_eq!(scene.stack.first().policy.isolation(), isolation);
}

#[test]
fn a_host_without_cache_partitioning_uses_cores() {
    let mut scene = Scene::new(8);
    scene.foreground("silo");
    let background = scene.background(6, "stress-ng-memory");
    scene.host.faults.without = Some(KnobKind::CacheWays);
    scene.run(Nanos::from_secs(6));
    assert!(scene.host.cpus_of(background).len() < 6);
    assert!(scene.notes.iter().any(|note| note.contains("cache ways")), "{:?}", scene.notes);
}

#[test]
fn what_is_not_measured_is_not_guessed() {
    let mut scene = Scene::new(8);
    scene.foreground("silo");
    let background = scene.background(6, "stress-ng-memory");
    scene.host.withhold(SignalSet::of(Signal::ALL));
    scene.run(Nanos::from_secs(5));
    assert_eq!(scene.turned, [[KnobKind::Cpus]]);
    assert!(scene.run_time(background) > Nanos::from_secs(4), "no solo run without a signal to profile");
    assert_eq!(scene.notes.iter().filter(|note| note.contains("HIS holds")).count(), 1);
}

#[test]
fn the_isolation_ends_with_its_foreground() {
    let mut scene = Scene::new(8);
    let foreground = scene.foreground("streaming");
    let background = scene.background(6, "streaming");
    scene.run(Nanos::from_secs(6));
    assert!(scene.turned.len() > 3);
    scene.host.faults.knobs_refused = 1.0;
    scene.host.detach(foreground);
    scene.run(millis(10));
    scene.host.faults.knobs_refused = 0.0;
    scene.run(Nanos::from_secs(2));
    assert_eq!(scene.host.cpus_of(background), CpuSet::first(8));
    assert_eq!(scene.host.cache_ways(background), Some(0xf_ffff));
    assert!((0..8).all(|cpu| scene.host.max_khz(CpuId(cpu)) == 2_100_000));
}

#[test]
fn a_cpu_that_comes_back_after_the_isolation_ended_is_the_backgrounds_too() {
    let mut scene = Scene::new(4);
    let foreground = scene.foreground("streaming");
    let background = scene.background(6, "streaming");
    scene.run(Nanos::from_secs(2));
    scene.host.set_online(CpuId(0), false);
    scene.run(millis(300));
    scene.host.detach(foreground);
    scene.run(Nanos::from_secs(2));
    assert_eq!(scene.host.cpus_of(background), "1-3".parse().unwrap());
    scene.host.set_online(CpuId(0), true);
    scene.run(Nanos::from_secs(2));
    assert_eq!(scene.host.cpus_of(background), CpuSet::first(4));
    assert_eq!(scene.host.max_khz(CpuId(0)), 2_100_000);
}

/// Two sockets of four cores, a foreground on each.
fn two_sockets(config: HisConfig) -> (Scene, [WorkloadId; 4]) {
    let mut scene = Scene::new(8);
    let topology = Topology::synthetic(2, 1, 4, 1);
    scene.host = Faulty::new(SimHost::new(topology, KernelConfig::default(), &[], 1, false).unwrap(), 1);
    scene.host.limit_leases(LeaseLimits { duty_per_mille: 250, ..LeaseLimits::default() });
    scene.stack = Stack::of_one(His::new(config), scene.host.view());
    let add = |scene: &mut Scene, spec: WorkloadSpec, profile: &str| {
        scene.host.attach(&WorkloadSpec { profile: Some(known(profile)), ..spec }).unwrap()
    };
    let lc = |name: &str| WorkloadSpec::lc(name, CpuCount::whole(2)).busy(2);
    let be = |name: &str| WorkloadSpec::be(name).busy(2);
    let ids = [
        add(&mut scene, lc("sensitive"), "streaming"),
        add(&mut scene, lc("robust"), "computing"),
        add(&mut scene, be("heavy"), "streaming"),
        add(&mut scene, be("light"), "computing"),
    ];
    (scene, ids)
}

#[test]
fn each_socket_is_a_group_and_falls_silent_alone() {
    let (mut scene, [one, other, heavy, light]) = two_sockets(HisConfig { migration_gain: 10.0, ..by_the_text() });
    scene.run(millis(2500));
    let [first, second]: [CpuSet; 2] = ["0-3".parse().unwrap(), "4-7".parse().unwrap()];
    for (id, socket) in [(one, first), (heavy, first), (other, second), (light, second)] {
        assert!(scene.host.cpus_of(id).is_subset(&socket), "{id:?} {}", scene.host.cpus_of(id));
    }
    assert_eq!(scene.stack.first().policy.groups().count(), 2);
    // Both were profiled at the same time: within 2.5 s one after the other could not be, at a quarter of the time.
    assert!(scene.stack.first().policy.groups.iter().all(|group| group.solo().is_some()));
    assert!(scene.run_time(light) > millis(1200), "the other socket's solo run did not stop it for longer");
}

#[test]
fn sockets_exchange_their_backgrounds_where_that_gains_enough_and_memory_follows() {
    let (mut scene, [one, _, heavy, light]) = two_sockets(HisConfig { migration_gain: 0.01, ..by_the_text() });
    scene.run(Nanos::from_secs(8));
    let socket = |scene: &Scene, id| usize::from(scene.host.cpus_of(id).lowest().unwrap().index() >= 4);
    let is_near = |scene: &Scene, id| socket(scene, id) == socket(scene, one);
    if scene.notes.iter().any(|note| note.contains("exchanged")) {
        assert!(!is_near(&scene, heavy) && is_near(&scene, light), "{:?}", scene.notes);
        assert_eq!(scene.host.home(heavy), Some(socket(&scene, heavy)), "its memory is there, too");
    } else {
        panic!("no exchange: {:?}", scene.notes);
    }
}

#[test]
fn a_search_is_a_trial_that_is_kept_where_it_helps_and_else_undone() {
    use quell_model::trial::{Finding, Then};

    for (front, back) in [("memcached", "streaming"), ("computing", "streaming")] {
        let mut scene = Scene::new(8);
        scene.stack = Stack::of_one(His::new(HisConfig { verify: true, ..HisConfig::default() }), scene.host.view());
        scene.foreground(front);
        scene.background(4, back);
        scene.run(Nanos::from_secs(60));
        let reported = &scene.trials;
        let ended = |trial: &&quell_model::Trial| matches!(trial.then, Then::Kept | Then::Undone);
        assert!(reported.iter().filter(ended).count() > 0, "{front}: {:?}", scene.notes);
        for trial in reported.iter().filter(ended) {
            let is_kept = trial.then == Then::Kept;
            assert!(is_kept || trial.to == trial.from, "{trial:?}");
            let gives_back = trial.expected == 0.0;
            assert!(!is_kept || gives_back || trial.finding == Finding::Helped, "{trial:?}");
        }
        let last = reported.iter().rev().find(|trial| ended(trial)).unwrap();
        let helped = reported.iter().any(|trial| trial.finding == Finding::Helped);
        assert!(front != "memcached" || helped, "{last:?}");
    }
}
