//! The runs: every combination of swept values under every stack.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use quell_model::Nanos;
use quell_policy::{AnyPolicy, PolicyError};
use quell_sim::scenario::{Point, Scenario, Sweep, label, one_line, parameters_in, place_of};

use super::stacks::{self, Named};

/// Everything that is to be run.
pub struct Plan {
    pub sweep: Sweep,
    pub entries: Vec<Entry>,
    /// Limits of policies on the simulated machine, and remarks on the reading of the scenario.
    pub limits: BTreeSet<String>,
    /// Changes on the command line.
    pub changes: Vec<String>,
}

/// One combination of swept values.
pub struct Entry {
    pub point: Point,
    pub scenario: Scenario,
    pub stacks: Vec<Named>,
}

impl Plan {
    /// Reads a scenario, its sweeps and policies, and refuses impossible ones.
    pub fn read(path: &Path, set: &[String], sweeps: &[String], only: &[String]) -> Result<Plan> {
        let sweep = Sweep::parse(path, &crate::scenario_file::text(path)?, set, sweeps)?;
        let mut plan = Plan { sweep, entries: Vec::new(), limits: BTreeSet::new(), changes: Vec::new() };
        for (point, scenario) in plan.sweep.scenarios()? {
            let at =
                || point.iter().map(|(key, value)| format!("{key}={}", label(value))).collect::<Vec<_>>().join(", ");
            let placed = |error: anyhow::Error| match error.downcast_ref() {
                Some(problem) => anyhow!("{}", said(path, plan.sweep.text(), set, problem)),
                None => error,
            };
            let built = stacks::of(&scenario, only, &mut plan.limits).map_err(placed);
            let stacks = if point.is_empty() { built? } else { built.with_context(at)? };
            plan.entries.push(Entry { point, scenario, stacks });
        }
        plan.limits.extend(stacks::note(plan.scenario()));
        plan.sweep.check_runs(plan.runs())?;
        plan.changes.extend(set.iter().map(|change| format!("--set {change}")));
        plan.changes.extend(sweeps.iter().map(|sweep| format!("--sweep {sweep}")));
        Ok(plan)
    }

    /// The first combination's scenario; its values that are not swept are the same in all of them.
    pub fn scenario(&self) -> &Scenario {
        &self.entries[0].scenario
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.entries.iter().map(|entry| entry.stacks.len() * entry.scenario.repetitions as usize).sum()
    }

    /// Simulated time of all runs.
    pub fn simulated(&self) -> Nanos {
        let of = |entry: &Entry| {
            let runs = entry.stacks.len() as u64 * u64::from(entry.scenario.repetitions);
            (entry.scenario.warm_up + entry.scenario.duration).0.saturating_mul(runs)
        };
        Nanos(self.entries.iter().map(of).fold(0, u64::saturating_add))
    }
}

/// The reason why a policy cannot be built, with the place in the file, or the setting on the command line.
fn said(path: &Path, text: &str, set: &[String], problem: &PolicyError<toml::de::Error>) -> String {
    match problem {
        PolicyError::Unknown { name, .. } => match parameters_in(path, text, name) {
            Some((_, place)) => format!("{place}: {problem}"),
            None => problem.to_string(),
        },
        PolicyError::Parameters { name, problem } => {
            let in_file = parameters_in(path, text, name).and_then(|(found, _)| AnyPolicy::build(name, found).err());
            let (place, problem) = match &in_file {
                Some(PolicyError::Parameters { problem, .. }) => (place_of(path, text, problem) + ": ", problem),
                _ => {
                    let mut changes = set.iter().rev();
                    let changed = changes.find(|change| change.starts_with(&format!("policy.{name}.")));
                    (changed.map_or(String::new(), |change| format!("--set {change}: ")), problem)
                }
            };
            format!("{place}the parameters of policy '{name}': {}", one_line(problem.message()))
        }
    }
}
