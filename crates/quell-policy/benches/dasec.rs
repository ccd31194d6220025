//! How long a step of `dasec` takes: 256 threads (goal 100 µs) and 4,096 (goal 2 ms), each of which was woken by four others, on
//! 80 CPUs; all that can change changes.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

#[path = "../tests/common/crowd.rs"]
mod crowd;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use quell_model::{Event, Outcome, Part, Plan, Policy, Verdict};
use quell_policy::AnyPolicy;

fn step(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dasec");
    for threads in [256, 4_096] {
        let (mut view, mut policy) = (crowd::view(threads), AnyPolicy::named("dasec").expect("it is registered"));
        let (mut plan, mut number) = (Plan::default(), 0);
        group.bench_function(BenchmarkId::new("step", threads), |bencher| {
            bencher.iter_custom(|steps| {
                let mut took = Duration::ZERO;
                for _ in 0..steps {
                    number += 1;
                    crowd::pass(&mut view, number);
                    let verdict = Verdict::Applied(view.now);
                    let applied = [Event::Outcome(Outcome { plan: number - 1, part: Part::Knobs, verdict })];
                    plan.begin(number);
                    let begun = std::time::Instant::now();
                    policy.step(&view, &applied, &mut plan);
                    took += begun.elapsed();
                }
                took
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    targets = step
}
criterion_main!(benches);
