//! Kernel events a second: wake-ups, switches, completions, and ticks on busy CPUs. A shipped scenario's wall time. And
//! simulated microseconds a second of the task sets whose schedules SimSo works out too; `scripts/simso-schedules --time`
//! says how long that takes.

#![allow(missing_docs, reason = "criterion's macros write functions without")]

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quell_model::{Class, CpuCount, Nanos, Topology};
use quell_policy::AnyPolicy;
use quell_sim::contention::library::named;
use quell_sim::contention::{MissCurve, Profile, ProfileName};
use quell_sim::experiment::task_sets::{Scheduling, TaskSet};
use quell_sim::scenario::{SHIPPED, Scenario, run};
use quell_sim::workload::{Arrivals, BatchSpec, Dispatch, ServerSpec, Service};
use quell_sim::{KernelConfig, Sim, WorkloadSpec};

/// A busy server on half of the CPUs and batch work on all: most events switch threads.
fn colocation(cpus: u32) -> Vec<WorkloadSpec> {
    let service = Service::Exponential(Nanos::from_micros(50));
    let arrivals = Arrivals::Poisson(f64::from(cpus) * 0.25 / 50e-6);
    let server = WorkloadSpec {
        threads: cpus,
        cpus: CpuCount::whole(cpus / 2),
        weight: 10_000,
        server: Some(ServerSpec { arrivals, service, dispatch: Dispatch::Pool }),
        ..WorkloadSpec::new("server", Class::LatencyCritical)
    };
    let batch = Some(BatchSpec::default());
    let hogs = WorkloadSpec { threads: cpus, idle: true, batch, ..WorkloadSpec::new("batch", Class::BestEffort) };
    vec![server, hogs]
}

/// The same where all slow each other down: a server whose data fits into half of the cache beside batch work that
/// streams.
fn contended(cpus: u32) -> Vec<WorkloadSpec> {
    let cached = Profile {
        cpi: 0.8,
        llc_references: 20.0,
        misses: MissCurve(vec![(0.0, 0.8), (15.0, 0.05)].into()),
        parallelism: 2.0,
        ..named("streaming").expect("it is known").clone()
    };
    let profiles = [ProfileName::Own(cached), ProfileName::Known("streaming".into())];
    let with = |(spec, profile)| WorkloadSpec { profile: Some(profile), ..spec };
    colocation(cpus).into_iter().zip(profiles).map(with).collect()
}

fn simulate(topology: Topology, workloads: &[WorkloadSpec], span: Nanos) -> u64 {
    let mut sim = Sim::new(topology, KernelConfig::default(), workloads, 1).expect("a scenario that makes sense");
    sim.begin();
    sim.run_until(span);
    sim.counters().events
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("kernel-events");
    group.sample_size(10);
    let machines = [
        (8, Topology::synthetic(1, 1, 8, 1)),
        (24, Topology::synthetic(1, 1, 12, 2)),
        (48, Topology::synthetic(2, 1, 12, 2)),
        (80, Topology::synthetic(4, 1, 20, 1)),
    ];
    for (cpus, topology) in machines {
        for (workloads, what) in [(colocation(cpus), ""), (contended(cpus), ", contention")] {
            let span = Nanos::from_millis(100);
            let count = simulate(topology.clone(), &workloads, span);
            group.throughput(Throughput::Elements(count));
            group.bench_function(format!("{cpus} CPUs, 100 ms{what}"), |bencher| {
                bencher.iter(|| simulate(topology.clone(), &workloads, span));
            });
        }
    }
    group.finish();
}

/// A shipped scenario as `quell sim` runs it.
fn scenario(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scenario");
    group.sample_size(10);
    for (shipped, name) in
        ["colocation", "contended"].into_iter().flat_map(|s| ["none", "guard", "caladan"].map(|p| (s, p)))
    {
        let text = SHIPPED.iter().find(|known| known.name == shipped).expect("it is shipped").text;
        let scenario = Scenario::parse(Path::new(shipped), text, &[]).expect("a scenario");
        group.bench_function(format!("{shipped}, {name}"), |bencher| {
            bencher.iter(|| {
                let mut policy = AnyPolicy::named(name).expect("a policy");
                run(&scenario, &mut policy, 0, |_| {}).expect("it runs")
            });
        });
    }
    group.finish();
}

/// As the script does: every set is built and simulated for its window.
fn task_sets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("task-sets");
    let sets = TaskSet::all();
    group.throughput(Throughput::Elements(sets.iter().map(|set| set.window).sum()));
    for (name, scheduling) in [("rm", Scheduling::RateMonotonic), ("edf", Scheduling::EarliestDeadline)] {
        group.bench_function(format!("{name}, 100 sets, elements are simulated us"), |bencher| {
            bencher.iter(|| {
                for set in &sets {
                    let mut sim = set.sim(scheduling).expect("the sets make sense");
                    sim.run_until(Nanos::from_micros(set.window));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, events, scenario, task_sets);
criterion_main!(benches);
