//! A scene in the simulator.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use quell_evidence::{Cell, Switching};
use quell_model::Nanos;
use quell_sim::scenario::{Detail, Run, Scenario};
use quell_sim::workload::WorkloadStats;

use crate::play::scenes::Treated;
use crate::simulate::stacks;

/// What one run under each treatment shows.
pub fn cells(treated: &[Treated], seed: u64) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for Treated { treatment, scenario, stack, .. } in treated {
        let name = &treatment.name;
        let scenario = Scenario { seed, repetitions: 1, ..scenario.clone() };
        let built = stacks::built(&scenario, stack, &mut BTreeSet::new())?;
        let observed = Run::new(&scenario, built.treatment, 0)
            .with_context(|| format!("treatment '{name}'"))?
            .finish(Detail::Totals, |_| ());
        let cells_of = |stats: &WorkloadStats| stats.latencies.cells().map(|(time, count)| (time.0, count)).collect();
        let latencies: Vec<Vec<(u64, u64)>> = observed.workloads.iter().map(cells_of).collect();
        let micros = |time: Option<Nanos>| time.map(|time| time.0 as f64 / 1e3);
        let span = observed.measured;
        let switching: Vec<_> = observed.workloads.iter().map(|stats| switching(stats, span)).collect();
        let report = scenario.report(name, &[observed]);
        cells.extend(report.workloads.into_iter().zip(latencies).zip(switching).map(|((of, latencies), switching)| {
            Cell {
                policy: name.clone(),
                workload: of.name,
                p50: micros(of.p50),
                p99: micros(of.p99),
                p999: micros(of.p999),
                mean: micros(of.mean),
                rate: of.throughput,
                cpus: of.cpus_got,
                waiting: of.threads_waiting,
                latencies,
                late: None,
                pause: None,
                switching: Some(switching),
            }
        }));
    }
    Ok(cells)
}

fn switching(stats: &WorkloadStats, span: Nanos) -> Switching {
    let rate = |count: u64| count as f64 / span.as_secs_f64().max(1e-9);
    let counted = stats.switching;
    Switching {
        sleeps: rate(counted.sleeps),
        preemptions: rate(counted.preemptions),
        migrations: rate(counted.migrations),
    }
}
