//! Figures that are files: a scene, what is measured in it, what is claimed; run by the simulator, in the lab, or here.

mod effects;
pub mod lab;
pub mod real;
mod redis;
pub mod sim;

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use quell_evidence::{Cell, Figure, Row};

use super::trial::{Kept, Trial};
use super::{judged, trial};
use crate::commands::play::scenes;

/// Who runs a figure's scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Runner {
    /// The simulator
    Sim,
    /// A real kernel with sched_ext, in lock-step time
    Lab,
    /// This machine
    Here,
}

impl Runner {
    fn name(self) -> &'static str {
        match self {
            Runner::Sim => "sim",
            Runner::Lab => "lab",
            Runner::Here => "here",
        }
    }
}

/// Is this the name of a figure's file?
pub fn is_file(id: &str) -> bool {
    Path::new(id).extension().is_some_and(|ending| ending == "toml")
}

/// Runs a figure's scene with every seed and judges what was found; each of its variants.
pub fn run(path: &Path, runner: Runner, quick: bool, kept: &Kept) -> Result<Vec<Row>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read the figure {}", path.display()))?;
    let figures = Figure::all(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let mut rows = Vec::new();
    for figure in figures {
        rows.extend(run_one(Box::leak(Box::new(figure)), path, runner, quick, kept)?);
    }
    Ok(rows)
}

fn run_one(figure: &'static Figure, path: &Path, runner: Runner, quick: bool, kept: &Kept) -> Result<Vec<Row>> {
    let program = figure.scene.get("program").and_then(toml::Value::as_str);
    if runner != Runner::Lab && (program.is_some() || figure.programs) {
        bail!("{}: programs run in the lab: add --on lab", path.display());
    }
    let in_lab = |once: &dyn Fn(Trial) -> Result<Vec<Cell>>| {
        let once = |trial: Trial| measured(figure, once(trial)?);
        let all = kept.one_by_one(&format!("{}-lab", figure.topic.id), quick, once)?;
        Ok(judged(&figure.topic, &all.measures, false))
    };
    match program {
        None => {}
        Some("redis") => return in_lab(&|trial| redis::in_guest(figure, trial.seed)),
        Some("effects") => return in_lab(&|trial| effects::in_guest(figure, trial.seed)),
        Some(_) => bail!("[scene]: there are program = \"redis\" and \"effects\""),
    }
    let treated = scenes::of(path, &figure.set, &[])?;
    let cpus = treated.first().context("nothing is compared: give the scene a policy, or treatments")?;
    let cpus = cpus.scenario.machine()?.topology.all().len() as u32;
    let once = |trial: Trial| {
        let cells: Vec<Cell> = match runner {
            Runner::Sim => sim::cells(&treated, trial.seed)?,
            Runner::Lab if figure.programs => lab::programs_in_guest(path, cpus, trial)?,
            Runner::Lab => lab::in_guest(path, cpus, trial.seed, &figure.treatments, &figure.set)?,
            Runner::Here => lab::here(path, trial.seed, &figure.set)?,
        };
        measured(figure, cells).with_context(|| path.display().to_string())
    };
    let name = format!("{}-{}", figure.topic.id, runner.name());
    // Boots and this machine's threads would disturb each other.
    let all = match runner {
        Runner::Sim => kept.trials(&name, quick, once)?,
        Runner::Lab | Runner::Here => kept.one_by_one(&name, quick, once)?,
    };
    Ok(judged(&figure.topic, &all.measures, false))
}

/// The measures in what one run found.
fn measured(figure: &Figure, cells: Vec<Cell>) -> Result<trial::Figure> {
    let measures = figure.found(&[cells]).map_err(|error| anyhow!(error))?;
    Ok(trial::Figure { measures, ..trial::Figure::default() })
}
