//! Tenants that are run with and without rKube, and their results.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result};
use quell_model::Nanos;
use quell_policy::AnyPolicy;
use quell_sim::experiment::rkube::{Neighbour, SYSTEM_CPUS, Seen, Span, Target, Tenants};
use rayon::prelude::*;

use crate::commands::paper::progress_bar;
use crate::commands::paper::trial::Trial;

/// Kubernetes' own means, or rKube.
pub const BOTH: [bool; 2] = [false, true];

/// The policy that decides.
pub fn policy(rkube: bool) -> Result<AnyPolicy> {
    if !rkube {
        return AnyPolicy::named("none").context("there is always a policy none");
    }
    let parameters = toml::Table::from_iter([("system_reserve".to_owned(), i64::from(SYSTEM_CPUS).into())]);
    Ok(AnyPolicy::build("rkube", toml::Value::Table(parameters))?)
}

/// What decides which CPUs containers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// Kubernetes' own means: weights and quotas.
    Standard,
    /// rKube.
    Rkube,
    /// The kubelet's static CPU manager beside Kubernetes' own means.
    Static,
}

impl From<bool> for Column {
    /// Does rKube decide?
    fn from(rkube: bool) -> Column {
        if rkube { Column::Rkube } else { Column::Standard }
    }
}

/// Tenants, and what decides.
type Cell = (Tenants, Column);

/// The runs.
pub struct Grid {
    trial: Trial,
    seen: BTreeMap<Cell, Seen>,
}

impl Grid {
    pub fn new(trial: Trial) -> Grid {
        Grid { trial, seen: BTreeMap::new() }
    }

    /// Simulated time. A saturated server does in a second what a batch job does in many.
    fn span(&self, target: Target) -> Span {
        let measured = match (target, self.trial.quick) {
            (Target::Batch(_), false) => Nanos::from_secs(5),
            (Target::Batch(_), true) => Nanos::from_millis(1_500),
            (Target::Memcached(_), false) => Nanos::from_millis(2_500),
            (Target::Memcached(_), true) => Nanos::from_millis(700),
        };
        Span { seed: self.trial.seed, warm_up: Nanos::from_millis(300), measured }
    }

    /// Runs those that were not run yet, and prints the time taken on standard error.
    pub fn run<C: Into<Column>>(&mut self, what: &str, cells: Vec<(Tenants, C)>) -> Result<()> {
        let began = Instant::now();
        let mut cells: Vec<Cell> = cells.into_iter().map(|(tenants, column)| (tenants, column.into())).collect();
        cells.sort_unstable();
        cells.dedup();
        cells.retain(|cell| !self.seen.contains_key(cell));
        let bar = progress_bar(cells.len() as u64);
        let seen: Result<Vec<Seen>> = cells
            .par_iter()
            .with_max_len(1)
            .map(|&(tenants, column)| {
                let (policy, span) = (&mut policy(column == Column::Rkube)?, self.span(tenants.target));
                let seen = match column {
                    Column::Static => tenants.run_pinned(policy, span),
                    _ => tenants.run(policy, span),
                }?;
                bar.inc(1);
                Ok(seen)
            })
            .collect();
        bar.finish_and_clear();
        let (count, seed) = (cells.len(), self.trial.seed);
        self.seen.extend(cells.into_iter().zip(seen?));
        eprintln!("{what}, seed {seed}: {count} cells in {:.1} s", began.elapsed().as_secs_f64());
        Ok(())
    }

    /// The target's result beside this neighbour.
    pub fn seen(&self, target: Target, neighbour: Option<Neighbour>, column: impl Into<Column>) -> Result<&Seen> {
        let cell = (Tenants { target, neighbour }, column.into());
        self.seen.get(&cell).with_context(|| format!("{cell:?} was not run"))
    }
}
