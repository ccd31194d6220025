//! Requests that pass through several threads of a VM, and vCPUs that poll before they sleep.

use std::collections::BTreeMap;

use quell_model::{Class, CpuSet, Nanos, Topology};
use quell_sim::workload::graph::{GraphSpec, LockOrder, LockSpec, RequestSpec, StageSpec, Step};
use quell_sim::workload::{Arrivals, BatchSpec, CpuList, Service, WorkloadStats};
use quell_sim::{Costs, IdleSearch, Interrupts, KernelConfig, Population, Sim, SimError, VmSpec, WorkloadSpec};

fn free() -> KernelConfig {
    KernelConfig { costs: Costs::FREE, ..KernelConfig::default() }
}

fn app(name: &str, vm: Option<&str>) -> WorkloadSpec {
    let roles = BTreeMap::from([("helper".to_owned(), 3), ("main".to_owned(), 1)]);
    WorkloadSpec {
        threads: 4,
        pool: Some(roles),
        vm: vm.map(str::to_owned),
        ..WorkloadSpec::new(name, Class::LatencyCritical)
    }
}

/// Its main thread takes requests in and answers; two helpers work, in part under a lock.
fn request(name: &str, rate: f64) -> RequestSpec {
    let work = |micros| Service::Exponential(Nanos::from_micros(micros));
    let stage = |stage: &str, role: &str, after: &[&str], steps| StageSpec {
        name: stage.into(),
        on: format!("{name}.{role}"),
        after: after.iter().map(|&name| name.to_owned()).collect(),
        profile: None,
        steps,
    };
    let help = || vec![Step::Work(work(100)), Step::Locked(work(20), "index".into())];
    let stages = vec![
        stage("take", "main", &[], vec![Step::Work(work(50))]),
        stage("left", "helper", &["take"], help()),
        stage("right", "helper", &["take"], help()),
        stage("answer", "main", &["left", "right"], vec![Step::Work(work(50))]),
    ];
    let arrivals = Some(Arrivals::Poisson(rate));
    RequestSpec { name: name.into(), copies: 1, arrivals, clients: None, at_most: None, stages }
}

fn graph(requests: Vec<RequestSpec>) -> GraphSpec {
    let lock = LockSpec { name: "index".into(), copies: 1, order: LockOrder::Barging };
    GraphSpec { requests, locks: vec![lock] }
}

/// vCPU n runs on CPU n of the host only.
fn pinned(name: &str, vcpus: u32) -> VmSpec {
    let vm = VmSpec { kernel: free(), ..VmSpec::new(name, vcpus) };
    VmSpec { affinity: vm.online().iter().map(|cpu| CpuList(CpuSet::one(cpu))).collect(), ..vm }
}

fn try_run(
    config: KernelConfig,
    vms: &[VmSpec],
    workloads: &[WorkloadSpec],
    requests: &GraphSpec,
) -> Result<Vec<WorkloadStats>, SimError> {
    let mut sim = Sim::new(Topology::synthetic(1, 1, 4, 1), config, Population { workloads, vms, requests }, 1)?;
    sim.begin();
    sim.run_until(Nanos::from_secs(1));
    sim.end_warm_up();
    sim.run_until(Nanos::from_secs(4));
    Ok(sim.stats())
}

fn mean(of: &WorkloadStats) -> f64 {
    of.latencies.mean().0 as f64
}

#[test]
fn in_a_pinned_vm_without_costs_requests_are_as_fast_as_on_the_bare_machine() {
    let requests = graph(vec![request("app", 3_000.0)]);
    for interrupts in [Interrupts::Spread, Interrupts::Elsewhere] {
        let config = KernelConfig { interrupts, ..free() };
        let bare = try_run(config.clone(), &[], &[app("app", None)], &requests).unwrap();
        let guest = try_run(config, &[pinned("vm", 4)], &[app("app", Some("vm"))], &requests).unwrap();
        assert!(bare[0].latencies.count() > 8_000);
        assert_eq!(bare[0].latencies.count(), guest[0].latencies.count(), "{interrupts:?}");
        assert!((mean(&guest[0]) / mean(&bare[0]) - 1.0).abs() < 0.03, "{} {}", mean(&guest[0]), mean(&bare[0]));
    }
}

#[test]
fn a_request_and_a_lock_are_in_one_place() {
    let refused = |workloads: &[WorkloadSpec], requests| {
        let vms = [pinned("one", 2), pinned("two", 2)];
        try_run(free(), &vms, workloads, &graph(requests)).unwrap_err().to_string()
    };
    let mut across = request("app", 10.0);
    across.stages[1].on = "other.helper".into();
    let text = refused(&[app("app", Some("one")), app("other", None)], vec![across]);
    assert!(text.contains("stage 'left' is on the host and its first one in VM 'one'"), "{text}");
    let workloads = [app("app", Some("one")), app("other", Some("two"))];
    let text = refused(&workloads, vec![request("app", 10.0), request("other", 10.0)]);
    assert!(text.contains("lock 'index'") && text.contains("not in the same VM"), "{text}");
}

#[test]
fn a_vcpu_that_polls_is_there_sooner_and_gives_way_to_others() {
    let requests = graph(vec![request("app", 3_000.0)]);
    let run = |micros, hogs| {
        let config = KernelConfig { halt_poll: Nanos::from_micros(micros), ..KernelConfig::default() };
        let batch = Some(BatchSpec::default());
        let hog = WorkloadSpec { threads: 4, batch, ..WorkloadSpec::new("hog", Class::BestEffort) };
        let mut workloads = vec![app("app", Some("vm"))];
        if hogs {
            workloads.push(hog);
        }
        let vm = VmSpec { kernel: KernelConfig::default(), ..pinned("vm", 4) };
        try_run(config, &[vm], &workloads, &requests).unwrap()
    };
    let (without, with) = (run(0, false), run(200, false));
    assert!(mean(&with[0]) < mean(&without[0]) - 1_000.0, "{} {}", mean(&with[0]), mean(&without[0]));
    let (without, with) = (run(0, true), run(200, true));
    let lost = 1.0 - with[1].run_time as f64 / without[1].run_time as f64;
    assert!(lost.abs() < 0.01, "the hogs lost {lost}");
}

#[test]
fn a_short_look_finds_fewer_idle_cpus() {
    let waited = |idle_search| {
        let server = |number: u32| {
            let server = quell_sim::workload::ServerSpec {
                arrivals: Arrivals::Poisson(40_000.0),
                service: Service::Exponential(Nanos::from_micros(20)),
                dispatch: quell_sim::workload::Dispatch::Pool,
            };
            WorkloadSpec {
                threads: 16,
                server: Some(server),
                ..WorkloadSpec::new(format!("server{number}"), Class::LatencyCritical)
            }
        };
        let workloads: Vec<_> = (0..16).map(server).collect();
        let config = KernelConfig { idle_search, ..KernelConfig::default() };
        let population = Population { workloads: &workloads, vms: &[], requests: &GraphSpec::NONE };
        let mut sim = Sim::new(Topology::synthetic(1, 1, 20, 1), config, population, 1).unwrap();
        sim.begin();
        sim.run_until(Nanos::from_millis(200));
        sim.stats().iter().map(|of| of.run_delay).sum::<u64>()
    };
    let (whole, short) = (waited(IdleSearch::Whole), waited(IdleSearch::Proportional));
    assert!(short > whole, "{short} and {whole}");
}
