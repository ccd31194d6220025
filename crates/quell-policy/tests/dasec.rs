//! dasec on the simulated machine: the thread that holds each service up is found, and services keep their shares.

use std::collections::{BTreeMap, BTreeSet};

use quell_model::{Class, KnobKind, Nanos, PreemptionMode, Stack, Topology};
use quell_policy::AnyPolicy;
use quell_sim::host::drive;
use quell_sim::workload::graph::{Clients, GraphSpec, RequestSpec, StageSpec, Step};
use quell_sim::workload::{BatchSpec, Service};
use quell_sim::{FairScheduler, KernelConfig, Population, SimHost, WorkloadSpec};

const PERIOD: Nanos = Nanos::from_millis(80);
const SERVICES: u32 = 3;

fn kernel(fair: FairScheduler) -> KernelConfig {
    KernelConfig { fair, preemption: PreemptionMode::Full, ..KernelConfig::default() }
}

fn dasec() -> AnyPolicy {
    AnyPolicy::named("dasec").unwrap()
}

/// A service of one main thread and seven helpers: the main thread does most of each request.
fn service(number: u32) -> (WorkloadSpec, RequestSpec) {
    let name = format!("service{number}");
    let roles = BTreeMap::from([("helper".to_owned(), 7), ("main".to_owned(), 1)]);
    let spec = WorkloadSpec { threads: 8, pool: Some(roles), ..WorkloadSpec::new(&name, Class::LatencyCritical) };
    let stage = |stage: &str, role: &str, after: &[&str], micros: u64| StageSpec {
        name: stage.into(),
        on: format!("{name}.{role}"),
        after: after.iter().map(|&name| name.to_owned()).collect(),
        profile: None,
        steps: vec![Step::Work(Service::Exponential(Nanos::from_micros(micros)))],
    };
    let stages = vec![
        stage("take", "main", &[], 400),
        stage("left", "helper", &["take"], 300),
        stage("right", "helper", &["take"], 300),
        stage("answer", "main", &["left", "right"], 400),
    ];
    let clients = Some(Clients { number: 8, think: Service::Exponential(Nanos::from_millis(4)) });
    (spec, RequestSpec { name, copies: 1, arrivals: None, clients, at_most: None, stages })
}

#[test]
fn the_one_critical_thread_of_each_service_is_found_within_twenty_periods() {
    for fair in [FairScheduler::Cfs, FairScheduler::Eevdf] {
        let (workloads, requests): (Vec<_>, Vec<_>) = (0..SERVICES).map(service).unzip();
        let graph = GraphSpec { requests, locks: Vec::new() };
        let population = Population { workloads: &workloads, vms: &[], requests: &graph };
        let mut host = SimHost::new(Topology::synthetic(1, 1, 8, 1), kernel(fair), population, 1, false).unwrap();
        let mut stack = Stack::of_one(dasec(), host.view());
        let mut found = BTreeSet::new();
        drive(&mut host, &mut stack, Nanos(PERIOD.0 * 20), |_, stack| {
            for note in &stack.first().plan.notes {
                if let Some((thread, _)) =
                    note.text.strip_prefix("thread ").and_then(|text| text.split_once(" is critical"))
                {
                    found.insert(thread.parse::<u32>().unwrap());
                }
            }
        });
        // Helpers come first, threads count from 1.
        let mains: BTreeSet<u32> = (1..=SERVICES).map(|number| 8 * number).collect();
        assert_eq!(found, mains, "{fair:?}");
    }
}

#[test]
fn each_part_is_switched_off_alone() {
    let kinds = |parameters: &str| {
        let parameters: serde_json::Value = serde_json::from_str(parameters).unwrap();
        let (workloads, requests): (Vec<_>, Vec<_>) = (0..SERVICES).map(service).unzip();
        let graph = GraphSpec { requests, locks: Vec::new() };
        let population = Population { workloads: &workloads, vms: &[], requests: &graph };
        let cfs = kernel(FairScheduler::Cfs);
        let mut host = SimHost::new(Topology::synthetic(1, 1, 8, 1), cfs, population, 1, false).unwrap();
        let mut stack = Stack::of_one(AnyPolicy::build("dasec", parameters).unwrap(), host.view());
        let mut kinds = BTreeSet::new();
        drive(&mut host, &mut stack, Nanos(PERIOD.0 * 20), |_, stack| {
            kinds.extend(stack.first().plan.knobs.iter().map(|setting| setting.knob.kind().name()));
        });
        kinds
    };
    let all = kinds("{}");
    assert_eq!(all.len(), 3, "{all:?}");
    for (part, without) in [("tsa", KnobKind::Weight), ("rla", KnobKind::WakeUpLatency), ("rcr", KnobKind::Cpus)] {
        let mut expected = all.clone();
        assert!(expected.remove(without.name()), "{all:?}");
        assert_eq!(kinds(&format!(r#"{{"{part}": false}}"#)), expected, "without {part}");
    }
}

#[test]
fn services_keep_their_shares_against_each_other() {
    let spinners = |name: &str, weight| WorkloadSpec {
        weight,
        threads: 8,
        batch: Some(BatchSpec::default()),
        ..WorkloadSpec::new(name, Class::LatencyCritical)
    };
    let share = |policy: &str| {
        let workloads = [spinners("one", 100), spinners("other", 300)];
        let kernel = kernel(FairScheduler::Cfs);
        let mut host = SimHost::new(Topology::synthetic(1, 1, 2, 1), kernel, &workloads, 1, false).unwrap();
        let mut stack = Stack::of_one(AnyPolicy::named(policy).unwrap(), host.view());
        drive(&mut host, &mut stack, Nanos::from_secs(40), |_, _| {});
        let stats = host.sim().stats();
        stats[1].run_time as f64 / stats[0].run_time as f64
    };
    let (plain, ours) = (share("none"), share("dasec"));
    assert!((ours / plain - 1.0).abs() < 0.02, "{plain} and {ours}");
}
