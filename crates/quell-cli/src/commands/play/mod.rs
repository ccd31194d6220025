//! `quell play`: a scene's workloads as real threads on this machine.

mod agent;
mod child;
mod groups;
mod run;
pub mod scenes;
mod table;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use quell_model::Nanos;
use quell_play::Pace;
use quell_report::screen::Screen;
use quell_sim::scenario::Scenario;

use super::{output, units};

/// Play a scenario's workloads as real threads on this machine
///
/// The same file as `quell sim`, the same random numbers; the kernel that runs here schedules. Each workload is a process,
/// in a control group of its own where cgroup v2 is there (else in a session of its own), and stacks of policies run as
/// `quell run` would run them. It is said which workloads cannot be played. In a real kernel with sched_ext, on any
/// machine: quell lab run -- quell play SCENARIO.
#[derive(Args)]
pub struct Arguments {
    /// A file, a scenario's or a figure's, or the name of a scenario that comes with Quell
    scenario: PathBuf,
    /// Only these stacks (of a figure, treatments); `none` is Linux as it is
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    policies: Vec<String>,
    /// Change a value, as in --set workload.server.threads=4
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The first repetition's seed [default: the scenario's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Length of the measured part [default: the scenario's]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    duration: Option<Nanos>,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    part: child::Part,
}

/// Plays the scene under each stack in turn, or one workload of it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let path = &arguments.scenario;
    if let Some(asked) = arguments.part.asked()? {
        let scenario = Scenario::parse(path, &scenes::text(path)?.0, &arguments.set)?;
        return child::play(&with_options(scenario, arguments), &asked);
    }
    let treated = scenes::of(path, &arguments.set, &arguments.policies)?;
    for scenes::Treated { scenario, .. } in &treated {
        if !scenario.vms.is_empty() {
            bail!("a scene with virtual machines cannot be played; `quell sim` can simulate it");
        }
        scenario.workloads.iter().try_for_each(quell_play::check)?;
    }
    let pace = Pace::measured();
    let (mut rows, mut noted) = (Vec::new(), BTreeSet::new());
    for scenes::Treated { name, scenario, stack, set } in treated {
        let scene = run::Scene::new(path.clone(), with_options(scenario, arguments), set, pace);
        for note in scene.notes()? {
            if noted.insert(note.clone()) {
                eprintln!("quell: {note}");
            }
        }
        for repetition in 0..scene.scenario.repetitions {
            rows.extend(scene.play(&name, &stack, repetition)?);
        }
    }
    let mut out = io::stdout().lock();
    if arguments.json {
        let rows: Vec<_> = rows.iter().map(run::Row::json).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&output::stamped(serde_json::json!({ "rows": rows })))?)?;
    } else {
        writeln!(out, "{}", table::of(&rows).fit(&Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn with_options(scenario: Scenario, arguments: &Arguments) -> Scenario {
    let seed = arguments.seed.unwrap_or(scenario.seed);
    let duration = arguments.duration.unwrap_or(scenario.duration);
    Scenario { seed, duration, ..scenario }
}
