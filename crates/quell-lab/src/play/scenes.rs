//! What a file asks to be played: a scenario, or a figure with its treatments.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use quell_evidence::{Figure, Treatment};
use quell_model::Class;
use quell_sim::scenario::{Scenario, StackSpec};

use crate::{programs, scenario_file};

/// A scene with how it is treated.
#[derive(Clone)]
pub struct Treated {
    /// The scene's treatment, or one that has a stack's name.
    pub treatment: Treatment,
    pub scenario: Scenario,
    pub stack: StackSpec,
    /// The changes of the scene, KEY=VALUE each.
    pub set: Vec<String>,
}

impl Treated {
    /// Does Linux alone decide?
    pub fn is_plain(&self) -> bool {
        self.stack.policies.iter().all(|policy| policy.name == "none")
    }
}

/// The scene of a file: a figure's, or the file itself; or that of a scene or scenario that comes with Quell.
pub fn text(path: &Path) -> Result<(String, Vec<Treatment>)> {
    if let Some(scene) = path.to_str().and_then(programs::scene) {
        return Ok((scene.text.to_owned(), Vec::new()));
    }
    let text = scenario_file::text(path)?;
    let is_figure = toml::from_str::<toml::Table>(&text).is_ok_and(|file| file.contains_key("scene"));
    if !is_figure {
        return Ok((text, Vec::new()));
    }
    let figure = Figure::read(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    Ok((figure.scene.to_string(), figure.treatments))
}

/// The scene under each of its treatments, or the scene's stacks where it has none; or those of `only`.
pub fn of(path: &Path, set: &[String], only: &[String]) -> Result<Vec<Treated>> {
    let (text, treatments) = text(path)?;
    if !treatments.is_empty() {
        let chosen = treatments.iter().filter(|treatment| only.is_empty() || only.contains(&treatment.name));
        return chosen.map(|treatment| treated(path, &text, treatment, set)).collect();
    }
    let scenario = Scenario::parse(path, &text, set).context("the scene")?;
    let stacks = match only {
        [] => scenario.stacks(),
        names => names.iter().map(|name| scenario.stack_named(name)).collect(),
    };
    let treat = |stack: StackSpec| {
        let treatment = Treatment { name: stack.name(), ..Treatment::default() };
        Treated { treatment, scenario: scenario.clone(), stack, set: set.to_vec() }
    };
    Ok(stacks.into_iter().map(treat).collect())
}

/// A scene of this text under a treatment, after these changes.
pub fn treated(path: &Path, text: &str, treatment: &Treatment, set: &[String]) -> Result<Treated> {
    let scene = |set: &[String]| {
        Scenario::parse(path, text, set).with_context(|| format!("the scene, treatment '{}'", treatment.name))
    };
    let mut set = set.to_vec();
    for workload in scene(&set)?.workloads {
        let keys = match workload.class {
            Class::LatencyCritical => &treatment.lc,
            Class::BestEffort => &treatment.be,
        };
        set.extend(keys.iter().map(|(key, value)| format!("workload.{}.{key}={value}", workload.name)));
    }
    set.extend_from_slice(&treatment.set);
    let mut scenario = scene(&set)?;
    scenario.workloads.retain(|workload| !treatment.alone || workload.batch.is_none());
    let stack = scenario.stack_named(&treatment.policy);
    Ok(Treated { treatment: treatment.clone(), scenario, stack, set })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quell_model::{SchedClass, Scheduler};

    use super::*;
    use crate::programs::{SCENES, TREATMENTS, rate, scene, treatment};

    fn spin(name: &str) -> Treated {
        treated(Path::new("spin"), scene("spin").unwrap().text, treatment(name).unwrap(), &[]).unwrap()
    }

    #[test]
    fn every_scene_of_programs_can_be_played_under_every_treatment() {
        let names: BTreeSet<_> = TREATMENTS.iter().map(|treatment| &treatment.name).collect();
        let titles: BTreeSet<_> = TREATMENTS.iter().map(Treatment::title).collect();
        assert_eq!((names.len(), titles.len()), (TREATMENTS.len(), TREATMENTS.len()));
        for scene in SCENES {
            for treatment in TREATMENTS.iter() {
                let treated = treated(Path::new(scene.name), scene.text, treatment, &[]).unwrap();
                for spec in &treated.scenario.workloads {
                    assert!(rate(spec).is_some() || spec.batch.is_some(), "{} in {}", spec.name, scene.name);
                }
            }
        }
    }

    #[test]
    fn a_treatment_reaches_all_workloads_of_a_class() {
        let [server, antagonist] = &spin("weight").scenario.workloads[..] else { panic!("two") };
        assert_eq!((server.weight, antagonist.weight), (10_000, 1));
        let fifo = spin("fifo").scenario.workloads;
        assert_eq!(fifo[0].scheduling, SchedClass::Fifo { priority: 5 });
        assert_eq!(fifo[1].scheduling, SchedClass::NORMAL);
        assert_eq!(spin("alone").scenario.workloads.len(), 1);
        assert_eq!(spin("caladan-affinity").scenario.machine.scheduler(), Scheduler::Kernel);
        assert!(spin("caladan-sockets").stack.parameters().contains_key("sockets"));
    }
}
