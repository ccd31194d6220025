//! A scene's workloads as real threads or programs under this machine's kernel.

mod agent;
mod apart;
mod around;
mod counted;
mod groups;
mod in_force;
mod load;
mod player;
mod programs;
mod run;
pub mod scenes;
mod symbols;
pub mod table;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use quell_command::request::Request;
use quell_evidence::Treatment;
use quell_model::{CpuSet, Nanos};
use quell_play::Pace;
use serde::{Deserialize, Serialize};

use self::apart::Apart;
pub use self::counted::{CountedPlay, Found};
pub use self::load::Load;
pub use self::player::Player;
pub use self::run::Report;
use self::run::Row;
use self::scenes::Treated;
use crate::programs::TREATMENTS;

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
        self.reports()
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

    /// CPUs of the scene's machine.
    pub fn cpus(&self) -> Result<u32> {
        let treated = self.treated()?;
        let first = treated.first().context("nothing is compared: give the scene a policy, or treatments")?;
        Ok(first.scenario.machine()?.topology.all().len() as u32)
    }

    /// The ways in which it is treated.
    pub fn treatments(&self) -> Result<Vec<Treatment>> {
        Ok(self.treated()?.into_iter().map(|treated| treated.treatment).collect())
    }

    /// Plays it; a row a treatment, repetition and workload.
    pub fn reports(&self) -> Result<Vec<Report>> {
        Ok(self.rows()?.iter().map(Row::report).collect())
    }

    fn rows(&self) -> Result<Vec<Row>> {
        let treated = self.checked()?;
        let apart = self.generators.as_ref().map(Apart::new).transpose()?;
        if self.programs { programs::play_all(&treated, apart.as_ref()) } else { self.threads(treated) }
    }

    /// The scene in each of the ways that it is treated, if it can be played.
    fn checked(&self) -> Result<Vec<Treated>> {
        let treated = self.treated()?;
        for Treated { scenario, .. } in &treated {
            if !scenario.vms.is_empty() {
                bail!("a scene with virtual machines cannot be played; `quell-lab run` simulates it");
            }
            let graph = scenario.graphs();
            let as_threads = |spec| quell_play::check(spec, &graph);
            scenario
                .workloads
                .iter()
                .try_for_each(|spec| if self.programs { programs::check(spec) } else { as_threads(spec) })?;
        }
        Ok(treated)
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
            bail!("--against {unknown}: there is no such treatment; there are {}", known.join(", "));
        }
        all.retain(|one| self.policies.is_empty() || self.policies.contains(&one.name));
        Ok(Some(all))
    }
}
