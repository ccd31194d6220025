//! What a file asks to be played: a scenario, or a figure with its treatments.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use quell_evidence::{Figure, Treatment};
use quell_sim::scenario::{Scenario, StackSpec};

use crate::commands::sim;

/// A scene with how it is treated.
pub struct Treated {
    /// What rows call it.
    pub name: String,
    pub scenario: Scenario,
    pub stack: StackSpec,
    /// The changes of the scene, KEY=VALUE each.
    pub set: Vec<String>,
}

/// The scene of a file: a figure's, or the file itself.
pub fn text(path: &Path) -> Result<(String, Vec<Treatment>)> {
    let text = sim::text(path)?;
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
    let scene = |changes: &[String]| Scenario::parse(path, &text, changes).context("the scene");
    let plain = scene(set)?;
    let stacks = |plain: &Scenario, names: &[String]| match names {
        [] => plain.stacks(),
        names => names.iter().map(|name| plain.stack_named(name)).collect(),
    };
    if treatments.is_empty() {
        let treat =
            |stack: StackSpec| Treated { name: stack.name(), scenario: plain.clone(), stack, set: set.to_vec() };
        return Ok(stacks(&plain, only).into_iter().map(treat).collect());
    }
    let chosen = treatments.iter().filter(|treatment| only.is_empty() || only.contains(&treatment.name));
    let treat = |treatment: &Treatment| {
        let set = [set, &treatment.set].concat();
        let scenario = scene(&set).with_context(|| format!("treatment '{}'", treatment.name))?;
        let stack = scenario.stack_named(&treatment.policy);
        Ok(Treated { name: treatment.name.clone(), scenario, stack, set })
    };
    chosen.map(treat).collect()
}
