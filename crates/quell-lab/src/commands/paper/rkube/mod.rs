//! `quell-lab paper rkube`: rKube's evaluation, simulated.

mod grid;
mod interference;
mod scaling;
mod trace;

use anyhow::{Context, Result};
use quell_evidence::{Measure, topic};
use quell_sim::experiment::rkube::{BATCH, Batch, Neighbour, Target};

use super::trial::{self, Figure, Kept};
use grid::Grid;

/// Runs everything.
pub fn run(quick: bool, kept: &Kept) -> Result<Figure> {
    let mut all = kept.trials("rkube-grid", quick, |trial| {
        let mut grid = Grid::new(trial);
        let mut measures = interference::measures(&mut grid)?;
        measures.extend(scaling::measures(&mut grid)?);
        Ok(Figure { measures, ..Figure::default() })
    })?;
    let trace = kept
        .trials("rkube-trace", quick, |trial| Ok(Figure { measures: trace::measures(trial)?, ..Figure::default() }))?;
    all.measures.extend(trace.measures);
    Ok(all)
}

/// A value for the claim of this name.
fn measure(name: &str, value: f64, note: impl Into<String>) -> Result<Measure> {
    trial::measure(topic("rkube").context("there are no claims of this paper")?, name, value, note)
}

/// Table 1's batch target of this name.
fn batch(name: &str) -> Result<Batch> {
    BATCH.into_iter().find(|batch| batch.name == name).with_context(|| format!("Table 1 has no '{name}'"))
}

/// The memory-intensive neighbour beside a target.
fn memory_intensive(target: Target, burstable: bool) -> Neighbour {
    let [_, capped, _, free] = Neighbour::all(target.cpus());
    if burstable { free } else { capped }
}

/// A neighbour's name.
fn name(neighbour: Neighbour) -> String {
    let limit = if neighbour.burstable { "burstable" } else { "capped" };
    let kind = if neighbour.memory { "memory" } else { "CPU" };
    format!("{limit} {kind}")
}

/// The least and the largest.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(least, most), value| (least.min(value), most.max(value)))
}
