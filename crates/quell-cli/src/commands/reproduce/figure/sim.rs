//! A scene in the simulator.

use std::collections::BTreeSet;

use anyhow::Result;
use quell_evidence::Cell;
use quell_model::Nanos;
use quell_sim::scenario::{Detail, Run, Scenario};

use crate::commands::sim::stacks;

/// What one run of each stack shows.
pub fn cells(scenario: &Scenario, seed: u64) -> Result<Vec<Cell>> {
    let scenario = Scenario { seed, ..scenario.clone() };
    let mut cells = Vec::new();
    for stack in stacks::of(&scenario, &[], &mut BTreeSet::new())? {
        let observed = Run::new(&scenario, stack.treatment, 0)?.finish(Detail::Totals, |_| ());
        let micros = |time: Option<Nanos>| time.map(|time| time.0 as f64 / 1e3);
        let report = scenario.report(&stack.name, &[observed]);
        cells.extend(report.workloads.into_iter().map(|of| Cell {
            policy: stack.name.clone(),
            workload: of.name,
            p50: micros(of.p50),
            p99: micros(of.p99),
            p999: micros(of.p999),
            mean: micros(of.mean),
            rate: of.throughput,
            cpus: of.cpus_got,
            waiting: of.threads_waiting,
        }));
    }
    Ok(cells)
}
