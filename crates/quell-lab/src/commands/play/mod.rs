//! `quell-lab play`: a scene's workloads as real threads on this machine.

mod agent;
mod apart;
mod around;
mod groups;
mod in_force;
mod player;
mod programs;
mod run;
pub mod scenes;
mod table;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use quell_command::request::Request;
use quell_command::{output, units};
use quell_evidence::Treatment;
use quell_model::{CpuSet, Nanos};
use quell_play::Pace;
use quell_report::screen::Screen;
use serde::{Deserialize, Serialize};

use self::apart::Apart;
pub use self::player::Player;
pub use self::run::Report;
use self::run::Row;
use self::scenes::Treated;
use super::programs::TREATMENTS;

/// Play a scenario's workloads as real threads on this machine
///
/// The same file as `quell-lab sim`, the same random numbers; the kernel that runs here schedules. Each workload is a process,
/// in a control group of its own where cgroup v2 is there (else in a session of its own), and stacks of policies run as
/// `quell run` would run them. It is said which workloads cannot be played. In a real kernel with sched_ext, on any
/// machine: quell-lab lab run -- quell-lab play SCENARIO.
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
    /// --programs those of `quell-lab lab peers`]
    #[arg(long, value_name = "FILE")]
    treatments: Option<PathBuf>,
}

/// A scene to be played.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Play {
    /// A file, a scenario's or a figure's, or the name of one that comes with Quell.
    pub scene: PathBuf,
    /// Only these stacks or treatments; none: all.
    pub policies: Vec<String>,
    /// Changes, KEY=VALUE each.
    pub set: Vec<String>,
    /// The first repetition's; None: the scenario's.
    pub seed: Option<u64>,
    /// Of the measured part; None: the scenario's.
    pub duration: Option<Nanos>,
    /// Programs instead of threads?
    pub programs: bool,
    /// CPUs of the load generators alone.
    pub generators: Option<CpuSet>,
    /// A file of treatments; None: the scene's own, or those of all scenes of programs.
    pub treatments: Option<PathBuf>,
}

impl Request for Play {
    const NAME: &'static str = "play";
    type Answer = Vec<Report>;

    fn answer(self) -> Result<Vec<Report>> {
        Ok(self.rows()?.iter().map(Row::report).collect())
    }
}

/// Plays the scene under each stack in turn.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let rows = arguments.play().rows()?;
    let mut out = io::stdout().lock();
    if arguments.json {
        let rows: Vec<_> = rows.iter().map(Row::report).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&output::stamped(serde_json::json!({ "rows": rows })))?)?;
    } else {
        writeln!(out, "{}", table::of(&rows).fit(&Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn play(&self) -> Play {
        Play {
            scene: self.scenario.clone(),
            policies: self.policies.clone(),
            set: self.set.clone(),
            seed: self.seed,
            duration: self.duration,
            programs: self.programs,
            generators: self.generators,
            treatments: self.treatments.clone(),
        }
    }
}

impl Play {
    /// Does an agent, the program `quell`, take part?
    pub fn has_agent(&self) -> Result<bool> {
        Ok(!self.treated()?.iter().all(Treated::is_plain))
    }

    /// The scene in each of the ways that it is treated.
    fn treated(&self) -> Result<Vec<Treated>> {
        let path = &self.scene;
        let mut treated = match self.chosen()? {
            None => scenes::of(path, &self.set, &self.policies)?,
            Some(treatments) => {
                let text = scenes::text(path)?.0;
                let treat = |treatment: &Treatment| scenes::treated(path, &text, treatment, &self.set);
                treatments.iter().map(treat).collect::<Result<_>>()?
            }
        };
        for Treated { scenario, .. } in &mut treated {
            scenario.seed = self.seed.unwrap_or(scenario.seed);
            scenario.duration = self.duration.unwrap_or(scenario.duration);
        }
        Ok(treated)
    }

    /// Plays it.
    fn rows(&self) -> Result<Vec<Row>> {
        let treated = self.treated()?;
        for Treated { scenario, .. } in &treated {
            if !scenario.vms.is_empty() {
                bail!("a scene with virtual machines cannot be played; `quell-lab sim` can simulate it");
            }
            let graph = scenario.graphs();
            let as_threads = |spec| quell_play::check(spec, &graph);
            scenario
                .workloads
                .iter()
                .try_for_each(|spec| if self.programs { programs::check(spec) } else { as_threads(spec) })?;
        }
        let apart = self.generators.as_ref().map(Apart::new).transpose()?;
        if self.programs { programs::play_all(&treated, apart.as_ref()) } else { self.threads(treated) }
    }

    /// All scenes as threads.
    fn threads(&self, treated: Vec<Treated>) -> Result<Vec<Row>> {
        let (pace, text) = (Pace::measured(), scenes::text(&self.scene)?.0);
        let (mut rows, mut noted) = (Vec::new(), BTreeSet::new());
        for treated in treated {
            let scene = run::Scene::new(self.scene.clone(), text.clone(), treated, pace);
            for note in scene.notes()? {
                if noted.insert(note.clone()) {
                    eprintln!("quell-lab: {note}");
                }
            }
            for repetition in 0..scene.repetitions() {
                rows.extend(scene.play(repetition)?);
            }
        }
        Ok(rows)
    }

    /// The chosen treatments that do not come from the scene's own file.
    fn chosen(&self) -> Result<Option<Vec<Treatment>>> {
        let mut all = match &self.treatments {
            // A figure has treatments of its own.
            None if self.programs && scenes::text(&self.scene)?.1.is_empty() => TREATMENTS.clone(),
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
