//! Do the intervals of latency quantiles hold the truth? On M/M/1, whose requests wait behind each other and whose
//! quantiles are known: the time in the system is exponential with rate μ−λ.

use std::path::Path;

use quell_model::Nanos;
use quell_policy::AnyPolicy;
use quell_sim::scenario::{Detail, QUANTILES, Scenario, run_in_detail};

const QUEUE: &str = r#"
duration = "10s"
warm_up = "200ms"
machine = { cores = 1 }
kernel.costs = { context_switch = "0ns", idle_exit = "0ns", tick = "0ns" }

[[workload]]
name = "queue"
class = "lc"
server = { arrivals = { poisson = 7000.0 }, service = { exponential = "100us" } }
"#;

/// Of 40 experiments with other seeds: how often the interval of each quantile holds the truth, and its mean width as a
/// part of the truth.
fn covered(changes: &[&str]) -> [(u32, f64); 4] {
    let mut found = [(0, 0.0); 4];
    for experiment in 0..40 {
        let changes = changes.iter().map(|&change| change.to_owned());
        let changes: Vec<String> = changes.chain([format!("seed={}", 1 + 10 * experiment)]).collect();
        let scenario = Scenario::parse(Path::new("queue"), QUEUE, &changes).unwrap();
        let run = |repetition| {
            run_in_detail(&scenario, &mut AnyPolicy::named("none").unwrap(), repetition, Detail::Blocks, |_| {})
                .unwrap()
        };
        let runs: Vec<_> = (0..scenario.repetitions).map(run).collect();
        let intervals = scenario.report("none", &runs).workloads[0].intervals.unwrap().all();
        for (at, (count, width)) in found.iter_mut().enumerate() {
            let truth = -1e9 * libm::log(1.0 - QUANTILES[at].share) / 3000.0;
            let (Nanos(low), Nanos(high)) = intervals[at].unwrap();
            *count += u32::from((low as f64..=high as f64).contains(&truth));
            *width += (high - low) as f64 / truth / 40.0;
        }
    }
    found
}

#[test]
fn intervals_hold_the_truth_and_are_not_wide() {
    for (what, changes) in [("blocks of one run", &[][..]), ("five repetitions", &["repetitions=5", "duration=2s"])] {
        let found = covered(changes);
        println!("{what}: p50, p90, p99, p99.9 held by this many of 40 intervals, of this mean width: {found:.2?}");
        let least = [32, 32, 32, 26];
        assert!(found.iter().zip(least).all(|((count, _), least)| *count >= least), "{what}: {found:?}");
        assert!(found.iter().all(|(_, width)| *width < 0.4), "{what}: {found:?}");
    }
}
