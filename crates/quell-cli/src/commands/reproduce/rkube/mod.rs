//! `quell reproduce rkube`: rKube's evaluation, simulated.

mod grid;
mod interference;
mod scaling;
mod trace;

use anyhow::{Context, Result};
use quell_evidence::{Claim, Row, rkube};
use quell_sim::experiment::rkube::{BATCH, Batch, Neighbour, Target};

use grid::Grid;

/// Runs everything.
pub fn run(quick: bool) -> Result<Vec<Row>> {
    let mut grid = Grid::new(quick);
    let mut rows = interference::rows(&mut grid)?;
    rows.extend(scaling::rows(&mut grid)?);
    rows.extend(trace::rows(quick)?);
    let place = |row: &Row| rkube::TOPIC.claims.iter().position(|claim| claim.id == row.claim.id);
    rows.sort_by_key(place);
    Ok(rows)
}

/// A value for the claim of this name.
fn row(name: &str, value: f64, note: impl Into<String>) -> Result<Row> {
    let id = format!("rkube.{name}");
    let claim: Option<&&'static Claim> = rkube::TOPIC.claims.iter().find(|claim| claim.id == id);
    let claim = claim.with_context(|| format!("nobody claims '{id}'"))?;
    Ok(Row::measured(claim, value, note))
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
