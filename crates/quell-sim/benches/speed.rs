//! Kernel events a second: wake-ups, switches, completions, and ticks on busy CPUs. A shipped scenario's wall time. And
//! simulated microseconds a second of the task sets whose schedules SimSo works out too; `scripts/simso-schedules --time`
//! says how long that takes.

#![allow(missing_docs, reason = "criterion's macros write functions without")]

mod busy;

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quell_model::Nanos;
use quell_policy::AnyPolicy;
use quell_sim::experiment::task_sets::{Scheduling, TaskSet};
use quell_sim::scenario::{SHIPPED, Scenario, run};

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("kernel-events");
    group.sample_size(10);
    for machine in busy::all() {
        let span = Nanos::from_millis(100);
        group.throughput(Throughput::Elements(machine.simulate(span)));
        group.bench_function(format!("{}, 100 ms", machine.name), |bencher| {
            bencher.iter(|| machine.simulate(span));
        });
    }
    group.finish();
}

/// A shipped scenario as `quell-lab run` runs it.
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
