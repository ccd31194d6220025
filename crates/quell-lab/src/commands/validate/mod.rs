//! `quell-lab validate`: the simulated kernel against a real one.

mod compare;
mod page;
mod random;
mod real;
mod table;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use quell_report::screen::Screen;
use serde_json::json;

use super::paper::figure::sim;
use crate::play::scenes;
use compare::Row;
use page::Scene;
use quell_command::output::stamped;
use real::Side;

/// Hold the simulated kernel against a real one, scene by scene
///
/// Each scene is run by the simulator and, as real threads in lock-step time, in the lab, with the same seeds: shares of the
/// CPUs within 2 %, medians within 5 %, p99 within 10 %. Where the real kernel's own 95 % interval is wider than that, the
/// simulator's value has to lie in it. Exit status 1 if a row is off.
#[derive(Args)]
pub struct Arguments {
    /// Scenarios or figures [default: all files *.toml of the directory scenes]
    scenes: Vec<PathBuf>,
    /// Run this many randomly generated scenes instead of files
    #[arg(long, value_name = "N", conflicts_with = "scenes", value_parser = clap::value_parser!(u32).range(1..))]
    random: Option<u32>,
    /// The seed of the generator
    #[arg(long, value_name = "S", requires = "random", default_value_t = 1)]
    seed: u64,
    /// Seeds a side
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Keep what the real kernel did in this directory, and do not play again what is kept there of the same scene, whatever
    /// has changed in the simulator
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Debian's version of the kernel, as in 7.0.13 [default: the one that is kept, or the best available]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
    /// Write a page with both distributions of each scene to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs all scenes on both sides.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(directory) = &arguments.keep {
        std::fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
    }
    let drawn = tempfile::tempdir().context("make a directory for scenes")?;
    let files = match arguments.random {
        Some(count) => {
            (1..=count).map(|number| random::write(drawn.path(), arguments.seed, number)).collect::<Result<_>>()?
        }
        None if arguments.scenes.is_empty() => all(Path::new("scenes"))?,
        None => arguments.scenes.clone(),
    };
    let scene = |file: &PathBuf| scene(file, arguments).with_context(|| format!("scene {}", file.display()));
    let scenes = files.iter().map(scene).collect::<Result<Vec<_>>>()?;
    let rows: Vec<&Row> = scenes.iter().flat_map(|scene| &scene.rows).collect();
    if let Some(path) = &arguments.html {
        std::fs::write(path, page::of(&scenes).to_html()).with_context(|| format!("write {}", path.display()))?;
    }
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&stamped(json!({ "rows": rows })))?)?;
    } else {
        write!(out, "{}", table::text(&rows, &Screen::here()))?;
    }
    Ok(if rows.iter().all(|row| row.is_near()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = directory.read_dir().with_context(|| format!("read {}; name a scene", directory.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    if files.is_empty() {
        bail!("no scene in {}: name one", directory.display());
    }
    Ok(files)
}

fn scene(file: &Path, arguments: &Arguments) -> Result<Scene> {
    let treated = scenes::of(file, &[], &[])?;
    let first = treated.first().context("nothing is to be run: give the scene a policy")?;
    let machine = first.scenario.machine()?.topology;
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    eprintln!("validate: {name}");
    let real = Side { kernel: arguments.kernel.as_deref(), keep: arguments.keep.as_deref() };
    let real = real.of(file, &machine, arguments.seeds)?;
    let kernel = real.kernel;
    let real: Vec<_> = real.seeds.into_values().take(arguments.seeds as usize).collect();
    let simulated = (1..=arguments.seeds).map(|seed| sim::cells(&treated, seed)).collect::<Result<Vec<_>>>()?;
    let rows = compare::rows(&name, &simulated, &real);
    Ok(Scene { title: first.scenario.title.clone(), kernel, rows, pairs: page::pairs(&simulated, &real), name })
}
