//! How long one step of each policy takes.
//!
//! `step` is every policy with 10, 100 and 1,000 workloads of 10 threads on 64 CPUs. `caladan` is its round — all
//! three algorithms, every task delayed — by CPUs and workloads; its budget is its interval, 10 µs.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use quell_model::{CpuCount, Description, Event, Nanos, Plan, Policy, Stack, Topology, View, Wake, WorkloadId};
use quell_policy::AnyPolicy;
use quell_sim::contention::ProfileName;
use quell_sim::host::drive;
use quell_sim::workload::Arrivals;
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

/// A machine with this many workloads of 10 threads, every fifth latency-critical and with requests waiting.
fn crowded(topology: Topology, workloads: usize, grants: bool) -> SimHost {
    let cpus = topology.all().len();
    let workload = |number: usize| {
        if number.is_multiple_of(5) {
            let cores = CpuCount(((cpus * 1000 / 2) / workloads.div_ceil(5)).min(2_000) as u32);
            WorkloadSpec::lc(format!("server{number}"), cores).serving(10, Arrivals::none(), Nanos::from_millis(100))
        } else {
            let profile = Some(ProfileName::Known("streaming".into()));
            WorkloadSpec { profile, ..WorkloadSpec::be(format!("batch{number}")).busy(10) }
        }
    };
    let all: Vec<WorkloadSpec> = (0..workloads).map(workload).collect();
    let mut host = SimHost::new(topology, KernelConfig::default(), &all, 1, grants).expect("it makes sense");
    (0..workloads as u32).step_by(5).for_each(|slot| host.send(WorkloadId(slot), 14));
    host
}

/// The policy after a few turns on a machine with these workloads, and what it sees then.
fn warmed_up(topology: Topology, workloads: usize, policy: AnyPolicy) -> (AnyPolicy, View) {
    let mut host = crowded(topology, workloads, policy.describe().grants);
    let turn = policy.describe().interval.clamp(Nanos::from_micros(10), Nanos::from_millis(20));
    let mut stack = Stack::of_one(policy, host.view());
    for _ in 0..8 {
        let until = host.now() + turn;
        drive(&mut host, &mut stack, until, |_, _| {});
    }
    (stack.first().policy.clone(), stack.view().clone())
}

/// Steps at every call, an interval later each time.
fn stepper(mut policy: AnyPolicy, mut view: View) -> impl FnMut() -> usize {
    let interval = policy.describe().interval.max(Nanos::from_micros(1));
    let (mut plan, mut number) = (Plan::default(), 1_000_000);
    move || {
        number += 1;
        view.now += interval;
        view.threads.at = view.now;
        plan.begin(number);
        policy.step(&view, &[], &mut plan);
        plan.grants.len() + plan.knobs.len()
    }
}

fn every_policy(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step");
    for description in AnyPolicy::ALL {
        for workloads in [10, 100, 1_000] {
            let policy = AnyPolicy::named(description.name).expect("it is registered");
            let (policy, view) = warmed_up(Topology::synthetic(2, 1, 16, 2), workloads, policy);
            let mut step = stepper(policy, view);
            group.bench_function(BenchmarkId::new(description.name, workloads), |bencher| bencher.iter(&mut step));
        }
    }
}

/// A policy whose steps are timed.
struct Timed {
    policy: AnyPolicy,
    took: Duration,
    steps: u64,
}

impl Policy for Timed {
    fn describe(&self) -> &'static Description {
        self.policy.describe()
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let begun = Instant::now();
        let wake = self.policy.step(view, events, plan);
        self.took += begun.elapsed();
        self.steps += 1;
        wake
    }
}

/// The slow controllers, whose goals are 20 µs (edgeiso: 30 µs) with 40 workloads and 200 µs with 400: their steps in the course of a run, with
/// solo runs, searches and whatever they ask for.
fn slow(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("slow");
    group.sample_size(10).warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(2));
    for name in ["his", "heracles", "edgeiso"] {
        for workloads in [40, 400] {
            let policy = AnyPolicy::named(name).expect("it is registered");
            let mut host = crowded(Topology::synthetic(2, 1, 16, 2), workloads, false);
            let timed = Timed { policy, took: Duration::ZERO, steps: 0 };
            let mut stack = Stack::of_one(timed, host.view());
            // A solo run of a second, and a search that has begun.
            let until = host.now() + Nanos::from_secs(4);
            drive(&mut host, &mut stack, until, |_, _| {});
            group.bench_function(BenchmarkId::new(name, workloads), |bencher| {
                bencher.iter_custom(|steps| {
                    let (took, wanted) = (stack.first().policy.took, stack.first().policy.steps + steps);
                    while stack.first().policy.steps < wanted {
                        let until = host.now() + Nanos::from_millis(100);
                        drive(&mut host, &mut stack, until, |_, _| {});
                    }
                    let made = stack.first().policy.steps + steps - wanted;
                    (stack.first().policy.took - took).mul_f64(steps as f64 / made.max(1) as f64)
                });
            });
        }
    }
}

fn caladan(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("caladan");
    let parameters = r#"{"thresh_ht": "25us", "thresh_bw": 25e9}"#;
    for (cpus, topology) in [
        (8, Topology::synthetic(1, 1, 4, 2)),
        (24, Topology::synthetic(1, 1, 12, 2)),
        (48, Topology::synthetic(2, 1, 12, 2)),
        (128, Topology::synthetic(2, 1, 32, 2)),
    ] {
        for workloads in [4, 20, 100] {
            let policy = AnyPolicy::build("caladan", &mut serde_json::Deserializer::from_str(parameters));
            let (policy, view) = warmed_up(topology.clone(), workloads, policy.expect("it takes these"));
            let mut step = stepper(policy, view);
            let name = BenchmarkId::new(format!("{cpus} CPUs"), workloads);
            group.bench_function(name, |bencher| bencher.iter(&mut step));
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    targets = every_policy, slow, caladan
}
criterion_main!(benches);
