//! Scenarios on the simulated device; the assertions are sentences of the paper.

use quell_model::{CpuCount, CpuId, Host, Knob, Layer, LeaseLimits, Slo, Stack, Target};
use quell_sim::contention::{ContentionSpec, Meters, ProfileName};
use quell_sim::machine::{Machine, Preset};
use quell_sim::workload::{Arrivals, BatchSpec, Turn};
use quell_sim::{Faulty, KernelConfig, SimHost, WorkloadSpec};

use super::*;

mod pausing;
mod trials;

fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

fn secs(secs: u64) -> Nanos {
    Nanos::from_secs(secs)
}

fn known(profile: &str) -> Option<ProfileName> {
    Some(ProfileName::Known(profile.into()))
}

fn jetson() -> Machine {
    Preset::named("edgeiso").unwrap().machine()
}

fn with(text: &str) -> EdgeIso {
    let policy = crate::AnyPolicy::build("edgeiso", &mut serde_json::Deserializer::from_str(text)).unwrap();
    let crate::AnyPolicy::Edgeiso(policy) = policy else { panic!("another policy") };
    policy
}

/// Without trials, which the text does not have.
fn by_the_text() -> EdgeIso {
    EdgeIso::new(EdgeIsoConfig { verify: false, ..EdgeIsoConfig::default() })
}

struct Scene {
    host: Faulty<SimHost>,
    stack: Stack<EdgeIso>,
    /// The knobs of each plan: their targets and values.
    turned: Vec<Vec<(Target, Knob)>>,
    notes: Vec<String>,
    trials: Vec<quell_model::Trial>,
}

impl Scene {
    fn new(machine: Machine, policy: EdgeIso) -> Scene {
        let mut host = Faulty::new(SimHost::new(machine, KernelConfig::default(), &[], 1, false).unwrap(), 1);
        host.limit_leases(LeaseLimits { duty_per_mille: 500, ..LeaseLimits::default() });
        let stack = Stack::of_one(policy, host.view());
        Scene { host, stack, turned: Vec::new(), notes: Vec::new(), trials: Vec::new() }
    }

    fn on_jetson() -> Scene {
        Scene::new(jetson(), by_the_text())
    }

    /// A service with these busy threads.
    fn service(&mut self, name: &str, threads: u32, profile: &str) -> WorkloadId {
        let service = WorkloadSpec::lc(name, CpuCount::whole(1)).busy(threads);
        self.host.attach(&WorkloadSpec { profile: known(profile), pausable: true, ..service }).unwrap()
    }

    fn batch(&mut self, threads: u32, profile: &str) -> WorkloadId {
        let batch = WorkloadSpec::be("batch").busy(threads);
        self.host.attach(&WorkloadSpec { profile: known(profile), ..batch }).unwrap()
    }

    fn run(&mut self, span: Nanos) {
        let until = self.host.now() + span;
        while self.host.now() < until {
            let wake = self.stack.turn(&mut self.host).unwrap();
            for Layer { plan, .. } in self.stack.stepped() {
                let settings: Vec<_> = plan.knobs.iter().map(|setting| (setting.target, setting.knob)).collect();
                self.turned.extend((!settings.is_empty()).then_some(settings));
                self.trials.extend(&plan.trials);
                self.notes.extend(plan.notes.iter().map(|note| note.text.to_string()));
            }
            self.host.wait(wake.sooner(Wake::At(until))).unwrap();
        }
    }

    fn policy(&self) -> &EdgeIso {
        &self.stack.first().policy
    }

    fn solo(&self, id: WorkloadId) -> Option<crate::kit::profile::Solo> {
        self.policy().tasks().iter().find(|task| task.id == id).and_then(|task| task.solo)
    }

    fn run_time(&self, id: WorkloadId) -> Nanos {
        Nanos(self.host.sim().stats()[id.index()].run_time)
    }

    /// The kinds of knobs in the order of their first use after the division, each once.
    fn techniques(&self) -> Vec<KnobKind> {
        let mut kinds = Vec::new();
        for kind in self.turned.iter().skip(1).filter_map(|knobs| knobs.first()).map(|(_, knob)| knob.kind()) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }
}

#[test]
fn at_first_the_resources_are_divided_evenly() {
    let mut scene = Scene::on_jetson();
    let service = scene.service("service", 2, "computing");
    let batch = scene.batch(4, "computing");
    scene.run(millis(100));
    assert_eq!(scene.host.cpus_of(service), "0-1".parse().unwrap());
    assert_eq!(scene.host.cpus_of(batch), "2-3".parse().unwrap());
    let other = scene.service("other", 2, "computing");
    scene.run(secs(3));
    let cpus = [service, other, batch].map(|id| scene.host.cpus_of(id).to_string());
    assert_eq!(cpus, ["0-1", "2", "3"], "what cannot be divided is a service's");
}

#[test]
fn without_data_a_task_is_profiled_alone_first() {
    let mut scene = Scene::on_jetson();
    let service = scene.service("service", 2, "computing");
    let batch = scene.batch(4, "streaming");
    scene.run(millis(1900));
    assert!(scene.run_time(batch) < millis(800), "{}", scene.run_time(batch));
    assert_eq!(scene.solo(service), None);
    scene.run(millis(500));
    let solo = scene.solo(service).expect("the solo run is over").usage;
    assert!((solo.cpus.unwrap() - 2.0).abs() < 0.02 && solo.active.unwrap() >= 1.9, "{solo:?}");
    assert!(scene.run_time(batch) > millis(300), "and batch work goes on");
}

#[test]
fn llc_contention_is_met_by_the_aggressors_quota_in_steps_of_a_tenth() {
    let mut scene = Scene::on_jetson();
    scene.service("service", 2, "memcached");
    let batch = scene.batch(2, "streaming");
    scene.run(secs(12));
    let quotas: Vec<Option<CpuCount>> = scene
        .turned
        .iter()
        .flatten()
        .filter(|(target, _)| *target == Target::Workload(batch))
        .filter_map(|(_, knob)| if let Knob::Quota(quota) = knob { Some(*quota) } else { None })
        .collect();
    assert_eq!(quotas.first(), Some(&Some(CpuCount(1800))), "a tenth of two CPUs: {quotas:?}");
    assert!(quotas.iter().flatten().all(|quota| quota.0 >= 100), "a tenth is left: {quotas:?}");
    assert!(!scene.techniques().contains(&KnobKind::CacheWays), "the device has no cache allocation");
}

#[test]
fn a_device_with_cache_allocation_uses_that_first() {
    let mut machine = jetson();
    machine.llc.is_divisible = true;
    let mut scene = Scene::new(machine, by_the_text());
    let service = scene.service("service", 2, "memcached");
    let batch = scene.batch(2, "streaming");
    scene.run(secs(8));
    assert!(scene.techniques().contains(&KnobKind::CacheWays), "{:?} {:?}", scene.techniques(), scene.notes);
    let ways = (scene.host.cache_ways(service).unwrap(), scene.host.cache_ways(batch).unwrap());
    assert_eq!(ways.0 & ways.1, 0, "{ways:x?}");
}

#[test]
fn bandwidth_contention_is_met_by_gpu_frequency_and_cores_or_by_cores_and_quota() {
    let mut scene = Scene::on_jetson();
    scene.service("service", 2, "streaming");
    scene.batch(2, "streaming");
    scene.run(secs(12));
    assert_eq!(scene.techniques().first(), Some(&KnobKind::GpuFrequencyKhz), "{:?}", scene.notes);
    assert!(scene.techniques().contains(&KnobKind::Cpus), "{:?}", scene.notes);

    let mut scene = Scene::new(jetson(), with(r#"{"verify": false, "tasks": {"service": {"gpu": true}}}"#));
    scene.service("service", 2, "streaming");
    scene.batch(2, "streaming");
    scene.run(secs(12));
    assert_eq!(scene.techniques().first(), Some(&KnobKind::Cpus), "{:?}", scene.notes);
    assert!(!scene.techniques().contains(&KnobKind::GpuFrequencyKhz), "it would suffer itself");
}

#[test]
fn cpu_contention_is_met_by_cores_of_the_victim() {
    let mut scene = Scene::on_jetson();
    let service = scene.service("service", 5, "computing");
    let batch = scene.batch(4, "computing");
    scene.run(secs(6));
    assert_eq!(scene.host.cpus_of(service).len(), 3, "no more than two active threads a core: {:?}", scene.notes);
    assert_eq!(scene.host.cpus_of(batch).len(), 1);
}

#[test]
fn without_contention_nothing_is_isolated() {
    let mut scene = Scene::on_jetson();
    scene.service("service", 1, "streaming");
    scene.host.attach(&WorkloadSpec::be("batch").busy(2)).unwrap();
    scene.run(secs(6));
    assert_eq!(scene.turned.len(), 1, "{:?}", scene.notes);
}

#[test]
fn several_tasks_are_profiled_in_turn() {
    let mut scene = Scene::on_jetson();
    let services = [scene.service("one", 1, "memcached"), scene.service("two", 1, "computing")];
    scene.batch(2, "streaming");
    scene.run(millis(1300));
    let alone = |id: WorkloadId| scene.policy().tasks().iter().find(|task| task.id == id).unwrap().alone_for;
    assert!(services.map(alone).iter().all(|alone| *alone >= millis(350)), "{:?}", services.map(alone));
    scene.run(secs(10));
    let solo = services.map(|id| scene.solo(id).expect("both are profiled").usage.llc_hit_ratio.unwrap());
    assert!(solo.iter().all(|ratio| *ratio > 0.0), "{solo:?}");
    assert!(scene.policy().tasks().iter().all(|task| !task.is_beside));
}

#[test]
fn slices_follow_each_other_without_a_pause() {
    let mut scene = Scene::on_jetson();
    let services = [scene.service("one", 1, "memcached"), scene.service("two", 1, "computing")];
    let batch = scene.batch(2, "streaming");
    scene.run(millis(400));
    let before = scene.run_time(batch);
    scene.run(millis(1400));
    let alone = |id: WorkloadId| scene.policy().tasks().iter().find(|task| task.id == id).unwrap().alone_for;
    assert!(services.map(alone).iter().all(|alone| *alone >= millis(350)), "{:?}", services.map(alone));
    assert!(scene.run_time(batch) - before < millis(50), "best-effort work ran between the slices");
    scene.run(secs(8));
    assert!(services.iter().all(|id| scene.solo(*id).is_some()));
    assert!(scene.run_time(batch) - before > secs(1), "and goes on after the last");
}

#[test]
fn a_solo_run_ends_when_a_service_is_gone() {
    let mut scene = Scene::on_jetson();
    let services = [scene.service("one", 1, "memcached"), scene.service("two", 1, "computing")];
    let batch = scene.batch(2, "streaming");
    scene.run(millis(500));
    let gone = services.into_iter().find(|id| scene.policy().profiler.alone() != Some(*id)).unwrap();
    scene.host.detach(gone);
    let before = scene.run_time(batch);
    scene.run(millis(50));
    assert!(scene.run_time(batch) > before, "nothing stays paused");
}

#[test]
fn the_victim_is_the_one_whose_slo_is_missed_most_where_its_latency_is_fresh() {
    let mut scene = Scene::on_jetson();
    let slow = scene.service("slow", 1, "memcached");
    let server = WorkloadSpec::lc("served", CpuCount::whole(1)).serving(2, Arrivals::Poisson(500.0), millis(1));
    let served = WorkloadSpec {
        profile: known("computing"),
        pausable: true,
        slo: Some(Slo { quantile: 0.99, bound: Nanos::from_micros(10) }),
        ..server
    };
    let served = scene.host.attach(&served).unwrap();
    scene.batch(2, "streaming");
    scene.run(secs(12));
    let found = super::task::victim(scene.stack.view(), scene.policy().tasks());
    assert_eq!(found, Some((served, super::task::FoundBy::Latency)));
    assert!(scene.solo(slow).is_some());
}

#[test]
fn another_phase_is_profiled_again() {
    let mut scene = Scene::on_jetson();
    let turn = |profile: &str| Turn { profile: known(profile).unwrap(), lasts: Some(secs(6)), work: None };
    let batch = Some(BatchSpec { phases: None, cycle: vec![turn("computing"), turn("streaming")] });
    let service = WorkloadSpec { threads: 2, batch, ..WorkloadSpec::lc("service", CpuCount::whole(2)) };
    let service = scene.host.attach(&service).unwrap();
    scene.batch(2, "computing");
    scene.run(secs(6));
    let before = scene.solo(service).unwrap();
    scene.run(millis(5900));
    let after = scene.solo(service).expect("profiled again");
    assert!(after.at > before.at && scene.notes.iter().any(|note| note.contains("phase changed")), "{:?}", scene.notes);
}

#[test]
fn what_is_not_measured_is_not_guessed() {
    let mut scene = Scene::on_jetson();
    scene.service("service", 2, "memcached");
    let batch = scene.batch(2, "streaming");
    scene.host.withhold(SignalSet::of(Signal::ALL));
    scene.run(secs(5));
    assert_eq!(scene.turned.len(), 1);
    assert!(scene.run_time(batch) > secs(8), "no solo run without a signal to profile");
    assert_eq!(scene.notes.iter().filter(|note| note.contains("EdgeIso holds")).count(), 1);
}

#[test]
fn without_counters_memory_is_one_resource_by_its_canary() {
    let counters: Meters = serde_json::from_str("\"canary\"").unwrap();
    let machine = Machine { contention: ContentionSpec { counters, ..ContentionSpec::default() }, ..jetson() };
    let mut scene = Scene::new(machine, by_the_text());
    let service = scene.service("service", 2, "streaming");
    scene.batch(2, "streaming");
    scene.run(secs(10));
    let task = scene.policy().tasks().iter().find(|task| task.id == service).unwrap();
    assert!(task.diffs.llc.is_none() && task.diffs.mem_bw.is_some(), "{:?}", task.diffs);
    assert!(scene.techniques().contains(&KnobKind::GpuFrequencyKhz), "{:?}", scene.notes);
}

#[test]
fn nothing_is_left_when_the_last_service_is_gone() {
    let mut scene = Scene::on_jetson();
    let service = scene.service("service", 2, "streaming");
    let batch = scene.batch(2, "streaming");
    scene.run(secs(10));
    assert!(scene.turned.len() > 3);
    scene.host.faults.knobs_refused = 1.0;
    scene.host.detach(service);
    scene.run(millis(10));
    scene.host.faults.knobs_refused = 0.0;
    scene.run(secs(2));
    assert_eq!(scene.host.cpus_of(batch), CpuSet::first(4));
    assert_eq!(scene.host.sim().gpu_khz(), Some(1_300_500));
    let last = scene.turned.last().unwrap();
    assert!(!last.iter().any(|(_, knob)| matches!(knob, Knob::Quota(Some(_)))), "{last:?}");
    assert!((0..4).all(|cpu| scene.host.max_khz(CpuId(cpu)) == 2_000_000));
}

#[test]
fn a_service_that_dies_as_the_victim_ends_its_search() {
    let mut scene = Scene::on_jetson();
    let services = [scene.service("one", 1, "streaming"), scene.service("two", 1, "computing")];
    scene.batch(2, "streaming");
    scene.run(secs(9));
    scene.host.detach(services[0]);
    scene.run(secs(6));
    let isolator = scene.policy().isolator();
    assert!(isolator.is_none_or(|(_, victim)| victim == services[1]), "{isolator:?}");
    assert_eq!(scene.host.cpus_of(services[1]).len(), 2, "divided anew");
}

#[test]
fn a_knob_that_the_host_has_not_is_tried_once_and_the_next_one_used() {
    let mut scene = Scene::on_jetson();
    scene.service("service", 2, "streaming");
    let batch = scene.batch(2, "streaming");
    scene.host.faults.without = Some(KnobKind::GpuFrequencyKhz);
    scene.run(secs(10));
    assert!(scene.host.cpus_of(batch).len() < 2, "{:?}", scene.notes);
    assert_eq!(scene.notes.iter().filter(|note| note.contains("host refused")).count(), 1, "{:?}", scene.notes);
}

#[test]
fn a_solo_run_ends_when_a_service_beside_it_misses_its_slo() {
    let mut scene = Scene::on_jetson();
    let server = WorkloadSpec::lc("beside", CpuCount::whole(1)).serving(2, Arrivals::Poisson(500.0), millis(1));
    let slo = Some(Slo { quantile: 0.99, bound: Nanos::from_micros(10) });
    scene.host.attach(&WorkloadSpec { profile: known("computing"), slo, ..server }).unwrap();
    scene.service("service", 1, "memcached");
    scene.batch(2, "streaming");
    scene.run(secs(4));
    assert!(scene.notes.iter().any(|note| note.contains("misses its SLO beside a solo run")), "{:?}", scene.notes);
}
