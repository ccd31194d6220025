//! Figures that are files: a scene, what is measured in it, what is claimed; run by the simulator, in the lab, or here.

mod effects;
pub mod real;
mod redis;
pub mod seen;
pub mod sim;

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use quell_evidence::{Figure, Row};

use self::seen::Seen;
use super::judged;
use super::trial::Kept;
use crate::in_guest::scene;
use crate::play::scenes;

/// Who runs a figure's scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// The simulator.
    Sim,
    /// A real kernel with sched_ext, in lock-step time.
    Lab,
    /// This machine.
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

/// Does this file hold a figure, or several?
pub fn is_figure(path: &Path) -> bool {
    let table = std::fs::read_to_string(path).ok().and_then(|text| toml::from_str::<toml::Table>(&text).ok());
    table.is_some_and(|file| file.contains_key("scene"))
}

/// The first figure of a file, if that holds one.
pub fn figure_in(path: &Path) -> Result<Option<Figure>> {
    if !is_figure(path) {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("read the figure {}", path.display()))?;
    let figures = Figure::all(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    Ok(figures.into_iter().next())
}

/// Runs a figure's scene with every seed and judges what was found; each of its variants.
pub fn run(path: &Path, runner: Runner, quick: bool, kept: &Kept) -> Result<(Vec<Row>, Vec<Seen>)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read the figure {}", path.display()))?;
    let figures = Figure::all(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let (mut rows, mut tables) = (Vec::new(), Vec::new());
    for figure in figures {
        let one = run_one(Box::leak(Box::new(figure)), path, runner, quick, kept);
        let (judged, seen) = one.with_context(|| path.display().to_string())?;
        rows.extend(judged);
        tables.push(seen);
    }
    Ok((rows, tables))
}

fn run_one(figure: &'static Figure, path: &Path, runner: Runner, quick: bool, kept: &Kept) -> Result<(Vec<Row>, Seen)> {
    let program = figure.scene.get("program").and_then(toml::Value::as_str);
    if runner != Runner::Lab && (program.is_some() || figure.programs) {
        bail!("its programs run in a guest: add --on programs --in lab");
    }
    let name = format!("{}-{}-cells", figure.topic.id, runner.name());
    let runs = match program {
        None => {
            let treated = scenes::of(path, &figure.set, &[])?;
            let cpus = treated.first().context("nothing is compared: give the scene a policy, or treatments")?;
            let cpus = cpus.scenario.machine()?.topology.all().len() as u32;
            // Boots and this machine's threads would disturb each other.
            match runner {
                Runner::Sim => kept.each_at_once(&name, quick, |trial| sim::cells(&treated, trial.seed)),
                Runner::Lab if figure.programs => kept.each(&name, quick, |trial| {
                    scene::programs_in_guest(path, cpus, figure.generator_cpus, trial.seed, trial.quick)
                }),
                Runner::Lab => kept.each(&name, quick, |trial| {
                    scene::in_guest(path, cpus, trial.seed, &figure.treatments, &figure.set)
                }),
                Runner::Here => kept.each(&name, quick, |trial| scene::here(path, trial.seed, &figure.set)),
            }
        }
        Some("redis") => kept.each(&name, quick, |trial| redis::in_guest(figure, trial.seed)),
        Some("effects") => kept.each(&name, quick, |trial| effects::in_guest(figure, trial.seed)),
        Some(_) => bail!("[scene]: there are program = \"redis\" and \"effects\""),
    };
    let runs = runs?;
    let measures = figure.found(&runs).map_err(|error| anyhow!(error))?;
    Ok((judged(&figure.topic, &measures, false), Seen::of(figure, &runs)))
}
