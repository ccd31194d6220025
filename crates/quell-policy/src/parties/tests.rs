//! The rules, one by one.

use quell_model::{Class, Controls, CpuCount, Outcome, Refusal, Sample, Slo, Topology, WayControl, Workload};

use super::*;

const TARGET: u64 = 100_000;

/// A service and best-effort work on four cores with two hyperthreads each, and a client that reports.
struct Scene {
    view: View,
    policy: Parties,
    events: Vec<Event>,
    cores: Vec<usize>,
    ways: Vec<u32>,
    plan: Plan,
}

impl Scene {
    fn new(services: u32) -> Scene {
        let mut view = View::new(Topology::synthetic(1, 1, 4, 2).into());
        let cache = WayControl { llc: 0, ways: 20, least: 1, contiguous: true, with_devices: 0 };
        view.controls = Controls { caches: vec![cache], ..Controls::default() }.into();
        for number in 0..services {
            let slo = Some(Slo { quantile: 0.999, bound: Nanos(TARGET) });
            let spec = Workload::new(format!("lc{number}"), Class::LatencyCritical, CpuCount::ZERO);
            view.workloads.spec.push(Some(Workload { slo, ..spec }.into()));
        }
        view.workloads.spec.push(Some(Workload::new("be", Class::BestEffort, CpuCount::ZERO).into()));
        let all = view.workloads.spec.len();
        let events = (0..all as u32).map(|id| Event::Attached(WorkloadId(id))).collect();
        let policy = Parties::new(PartiesConfig::default());
        let mut scene = Scene { view, policy, events, cores: vec![0; all], ways: vec![0; all], plan: Plan::default() };
        scene.step(&[]);
        scene.step(&[]);
        scene
    }

    /// Half a second later, services' latencies are these, ns.
    fn step(&mut self, latencies: &[u64]) {
        let now = self.view.now;
        self.view.workloads.latency = latencies.iter().map(|&latency| Sample::exact(Nanos(latency), now)).collect();
        self.plan.begin(self.plan.number + 1);
        let events = std::mem::take(&mut self.events);
        let wake = self.policy.step(&self.view, &events, &mut self.plan);
        assert_eq!(wake, Wake::At(now + INTERVAL));
        for setting in &self.plan.knobs {
            let Target::Workload(id) = setting.target else { panic!("{setting:?}") };
            match setting.knob {
                Knob::Cpus(cpus) => self.cores[id.index()] = cpus.len(),
                Knob::CacheWays(ways) => self.ways[id.index()] = ways.count_ones(),
                _ => panic!("{setting:?}"),
            }
        }
        self.view.now += INTERVAL;
    }
}

#[test]
fn it_begins_with_equal_parts() {
    let scene = Scene::new(1);
    assert_eq!((&scene.cores[..], &scene.ways[..]), (&[4, 4][..], &[10, 10][..]));
    assert_eq!(Scene::new(2).cores, [3, 3, 2]);
}

#[test]
fn who_misses_his_latency_gets_a_unit_and_another_resource_if_that_did_not_help() {
    let mut scene = Scene::new(1);
    scene.step(&[200_000]);
    assert_eq!((scene.cores[0], scene.ways[0]), (5, 10), "a core first");
    scene.step(&[150_000]);
    assert_eq!((scene.cores[0], scene.ways[0]), (6, 10), "it helped: another one");
    scene.step(&[160_000]);
    assert_eq!((scene.cores[0], scene.ways[0]), (6, 11), "it did not: a cache way");
    scene.step(&[90_000]);
    assert_eq!((scene.cores[0], scene.ways[0]), (6, 11), "a slack of 10 %: nothing moves");
    for _ in 0..100 {
        scene.step(&[300_000]);
    }
    assert_eq!((&scene.cores[..], &scene.ways[..]), (&[7, 1][..], &[19, 1][..]), "best-effort work keeps one of each");
}

#[test]
fn who_has_slack_gives_a_unit_and_gets_it_back_if_he_suffers() {
    let mut scene = Scene::new(1);
    scene.step(&[50_000]);
    assert_eq!(scene.cores, [3, 5]);
    scene.step(&[60_000]);
    assert_eq!(scene.cores, [2, 6]);
    scene.step(&[120_000]);
    assert_eq!(scene.cores, [3, 5], "taken back");
    for _ in 0..19 {
        scene.step(&[60_000]);
    }
    assert_eq!((&scene.cores[..], &scene.ways[..]), (&[3, 5][..], &[10, 10][..]), "it rests for 10 s");
    scene.step(&[60_000]);
    assert_eq!(scene.ways, [9, 11], "the next resource");
}

#[test]
fn of_several_the_one_with_the_least_slack_is_helped() {
    let mut scene = Scene::new(2);
    scene.step(&[150_000, 200_000]);
    assert_eq!(scene.cores, [3, 4, 1]);
    scene.step(&[50_000, 190_000]);
    assert_eq!(scene.cores, [2, 5, 1], "best-effort work has nothing more to lose");
}

#[test]
fn a_service_that_gave_a_unit_tries_another_resource_next() {
    let mut scene = Scene::new(2);
    scene.step(&[90_000, 200_000]);
    assert_eq!((&scene.cores[..], scene.ways[0]), (&[3, 4, 1][..], 7), "best-effort work's core");
    scene.step(&[90_000, 190_000]);
    assert_eq!(scene.cores, [2, 5, 1], "the other service's core");
    // That other service misses its target now and asks for a way, since it has just given a core.
    scene.step(&[150_000, 90_000]);
    assert_eq!((&scene.cores[..], scene.ways[0]), (&[2, 5, 1][..], 8));
}

#[test]
fn without_cat_it_divides_cores_alone() {
    let mut scene = Scene::new(1);
    let verdict = Verdict::Refused(Refusal::Unsupported("no CAT".into()));
    scene.events.push(Event::Outcome(Outcome { plan: scene.plan.number, part: Part::Knobs, verdict }));
    for latency in [200_000, 210_000, 220_000] {
        scene.step(&[latency]);
    }
    assert_eq!((scene.cores[0], scene.ways[0]), (7, 10));
}

#[test]
fn a_division_that_was_refused_is_tried_again() {
    let mut scene = Scene::new(1);
    scene.events.push(Event::Attached(WorkloadId(0)));
    scene.step(&[]);
    let refused = Verdict::Refused(Refusal::System("busy".into()));
    scene.events.push(Event::Outcome(Outcome { plan: scene.plan.number, part: Part::Knobs, verdict: refused }));
    scene.step(&[]);
    scene.cores.fill(0);
    scene.step(&[]);
    assert_eq!(scene.cores, [4, 4]);
}

#[test]
fn without_reports_nothing_moves() {
    let mut scene = Scene::new(1);
    scene.step(&[]);
    assert!(scene.plan.notes.iter().any(|note| note.text.contains("latency")));
    assert!(scene.plan.knobs.is_empty());
}
