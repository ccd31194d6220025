//! `quell play`: a scene's workloads as real threads on this machine.

mod agent;
mod apart;
mod around;
mod child;
mod groups;
mod in_force;
mod programs;
mod run;
pub mod scenes;
mod table;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use quell_evidence::Treatment;
use quell_model::{CpuSet, Nanos};
use quell_play::Pace;
use quell_report::screen::Screen;
use quell_sim::scenario::Scenario;

use self::apart::Apart;
use self::run::Row;
use self::scenes::Treated;
use super::programs::TREATMENTS;
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
    /// Real programs instead of threads: a server is memcached under `quell load`, work without end is `quell antagonist`
    #[arg(long)]
    programs: bool,
    /// CPUs of the load generators alone, as in 4 or 4-5, one each in turn; all else runs on the others [default: no such CPUs]
    #[arg(long, value_name = "CPUS", requires = "programs")]
    generators: Option<CpuSet>,
    /// Treat the scene in the ways of this file, which has `[[treatment]]`s as a figure has [default: a figure's own, or with
    /// --programs those of `quell lab peers`]
    #[arg(long, value_name = "FILE")]
    treatments: Option<PathBuf>,
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
    let mut treated = match arguments.treatments()? {
        None => scenes::of(path, &arguments.set, &arguments.policies)?,
        Some(treatments) => {
            let text = scenes::text(path)?.0;
            let treat = |treatment: &Treatment| scenes::treated(path, &text, treatment, &arguments.set);
            treatments.iter().map(treat).collect::<Result<_>>()?
        }
    };
    for Treated { scenario, .. } in &mut treated {
        *scenario = with_options(scenario.clone(), arguments);
        if !scenario.vms.is_empty() {
            bail!("a scene with virtual machines cannot be played; `quell sim` can simulate it");
        }
        let graph = scenario.graphs();
        let as_threads = |spec| quell_play::check(spec, &graph);
        scenario
            .workloads
            .iter()
            .try_for_each(|spec| if arguments.programs { programs::check(spec) } else { as_threads(spec) })?;
    }
    let apart = arguments.generators.as_ref().map(Apart::new).transpose()?;
    let rows = if arguments.programs { programs::play_all(&treated, apart.as_ref())? } else { threads(path, treated)? };
    let mut out = io::stdout().lock();
    if arguments.json {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&output::stamped(serde_json::json!({ "rows": rows })))?)?;
    } else {
        writeln!(out, "{}", table::of(&rows).fit(&Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All scenes as threads.
fn threads(path: &Path, treated: Vec<Treated>) -> Result<Vec<Row>> {
    let pace = Pace::measured();
    let (mut rows, mut noted) = (Vec::new(), BTreeSet::new());
    for treated in treated {
        let scene = run::Scene::new(path.to_owned(), treated, pace);
        for note in scene.notes()? {
            if noted.insert(note.clone()) {
                eprintln!("quell: {note}");
            }
        }
        for repetition in 0..scene.repetitions() {
            rows.extend(scene.play(repetition)?);
        }
    }
    Ok(rows)
}

impl Arguments {
    /// The chosen treatments that do not come from the scene's own file.
    fn treatments(&self) -> Result<Option<Vec<Treatment>>> {
        let mut all = match &self.treatments {
            // A figure has treatments of its own.
            None if self.programs && scenes::text(&self.scenario)?.1.is_empty() => TREATMENTS.clone(),
            None => return Ok(None),
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
                Treatment::all(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?.0
            }
        };
        if let Some(unknown) = self.policies.iter().find(|name| all.iter().all(|one| one.name != **name)) {
            let known: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
            bail!("--policies {unknown}: there is no such treatment; there are {}", known.join(", "));
        }
        all.retain(|one| self.policies.is_empty() || self.policies.contains(&one.name));
        Ok(Some(all))
    }
}

fn with_options(scenario: Scenario, arguments: &Arguments) -> Scenario {
    let seed = arguments.seed.unwrap_or(scenario.seed);
    let duration = arguments.duration.unwrap_or(scenario.duration);
    Scenario { seed, duration, ..scenario }
}
