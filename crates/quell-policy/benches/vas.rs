//! How long VAS's analysis takes: one budget at 10^6 releases, a whole curve at 10^4, an answer for a Poisson stream.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use criterion::{Criterion, criterion_group, criterion_main};
use quell_model::Nanos;
use quell_policy::vas::{Busy, Curve, Poisson, Releases, Task, TaskSet, least_budget};

/// Eight tasks with about this many releases in a hyperperiod; works and offsets are no round numbers.
fn set(releases: u64) -> TaskSet {
    let period = 1_000_000;
    let task = |number: u64| {
        let own = period << number.min(3);
        Task { offset: Nanos(own / 7 * number % own), work: Nanos(own / 16 + 97 * number), period: Nanos(own) }
    };
    // Seven tasks have 9 releases in 4 ms; the last one's period is the hyperperiod.
    let mut tasks: Vec<Task> = (0..7).map(task).collect();
    let longest = period * (releases * 4 / 9 / 8 * 8);
    tasks.push(Task { offset: Nanos(12_345), work: Nanos(654_321), period: Nanos(longest) });
    TaskSet::new(tasks, Releases::Periodic).expect("it is below a CPU")
}

fn vas(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("vas");
    let million = set(1_000_000);
    let count = million.release_count();
    let period = Nanos(million.hyperperiod().0 / 3);
    group.bench_function(format!("one period, {count} releases"), |bencher| {
        bencher.iter(|| Busy::of(&million).budget(period));
    });
    let (small, large) = (set(10_000), Busy::of(&million));
    let busy = Busy::of(&small);
    let name = format!("curve, {} releases, {} busy intervals", small.release_count(), busy.count());
    group.bench_function(name, |bencher| bencher.iter(|| Curve::of(&busy)));
    let name = format!("sampled curve, {count} releases, {} busy intervals", large.count());
    group.bench_function(name, |bencher| bencher.iter(|| Curve::of(&large)));
    let stream = Poisson { rate: 2_000.0, service: "lognormal:100us:1".parse().expect("it is one") };
    group.bench_function("Poisson, the 0.999 quantile", |bencher| {
        bencher.iter(|| least_budget(&stream, Nanos::from_millis(10), 0.999, Nanos::from_millis(5)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_secs(2));
    targets = vas
}
criterion_main!(benches);
