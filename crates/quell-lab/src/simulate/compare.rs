//! Running the plan, side by side.

use std::path::Path;

use anyhow::{Result, bail};
use quell_agent::record::Recorder;
use quell_agent::stack::Witness;
use quell_model::Nanos;
use quell_sim::scenario::{Course, Detail, Observed, Point, Remark, Report, Run, label};
use quell_sim::workload::Latencies;
use rayon::prelude::*;

use super::plan::{Entry, Plan};
use super::progress::Progress;
use super::stacks::Named;

/// One combination of swept values under one stack: all repetitions together.
pub struct Outcome {
    pub point: Point,
    pub report: Report,
    /// The first run's seed.
    pub seed: u64,
    /// The scenario's parameters of the stack's policies.
    pub parameters: toml::Table,
    /// The policy's remarks.
    pub remarks: Vec<Remark>,
    /// The first repetition's course of time, if it was asked for.
    pub course: Option<Course>,
    /// By workload: each cell's latency, ns, and count; kept where the course is.
    pub latencies: Vec<Vec<(u64, u64)>>,
}

impl Outcome {
    /// Its policy, and the swept values.
    pub fn name(&self) -> String {
        let swept = self.point.iter().map(|(key, value)| format!(", {key}={}", label(value)));
        format!("{}{}", self.report.policy, swept.collect::<String>())
    }
}

/// Runs everything. The outcomes are in the plan's order, in whatever order the runs end.
pub fn all(plan: &Plan, detail: Detail, progress: &Progress) -> Result<Vec<Outcome>> {
    let jobs: Vec<(&Entry, &Named)> =
        plan.entries.iter().flat_map(|entry| entry.stacks.iter().map(move |stack| (entry, stack))).collect();
    let outcomes = jobs.into_par_iter().map(|(entry, stack)| one(entry, stack, detail, progress)).collect();
    progress.end();
    outcomes
}

/// Records the only run of a plan: each layer's view, events and plan in each turn.
///
/// # Errors
/// If the record cannot be written, or the scenario makes no sense.
pub fn record(plan: &Plan, file: &Path) -> Result<()> {
    let entry = &plan.entries[0];
    let run = Run::new(&entry.scenario, entry.stacks[0].treatment.clone(), 0)?;
    let mut recorder = Recorder::start(file, run.stack().view(), run.stack().layers())?.that_waits();
    run.finish(Detail::Totals, |stack| recorder.turned(stack.view(), stack.layers()));
    let progress = recorder.progress();
    drop(recorder);
    match progress().failed {
        None => Ok(()),
        Some(why) => bail!(why),
    }
}

fn one(entry: &Entry, stack: &Named, detail: Detail, progress: &Progress) -> Result<Outcome> {
    let scenario = &entry.scenario;
    let repetitions = 0..scenario.repetitions;
    let observed: Result<Vec<Observed>> = repetitions
        .into_par_iter()
        .map(|repetition| {
            // Intervals of several repetitions need no blocks; one course of time is shown.
            let detail = match (detail, repetition) {
                (Detail::Course, 0) => Detail::Course,
                _ if scenario.repetitions > 1 => Detail::Totals,
                _ => detail,
            };
            let mut shown = Nanos::ZERO;
            let mut seen = |now: Nanos| {
                if now >= shown + Nanos::from_millis(10) {
                    progress.passed(now - shown);
                    shown = now;
                }
            };
            let run = Run::new(scenario, stack.treatment.clone(), repetition)?;
            let observed = run.finish(detail, |stack| seen(stack.view().now));
            // A policy with rare steps is rarely seen.
            progress.run_ended((scenario.warm_up + scenario.duration) - shown);
            Ok(observed)
        })
        .collect();
    let mut observed = observed?;
    let report = scenario.report(&stack.name, &observed);
    let course = observed.first_mut().and_then(|first| first.course.take());
    let latencies = match course {
        None => Vec::new(),
        Some(_) => (0..scenario.workloads.len()).map(|at| cells(&observed, at)).collect(),
    };
    Ok(Outcome {
        point: entry.point.clone(),
        report,
        seed: scenario.seed,
        parameters: stack.parameters.clone(),
        remarks: Remark::of_all(&observed),
        course,
        latencies,
    })
}

fn cells(runs: &[Observed], at: usize) -> Vec<(u64, u64)> {
    let mut all = Latencies::default();
    runs.iter().for_each(|run| all.merge(&run.workloads[at].latencies));
    all.cells().map(|(latency, count)| (latency.0, count)).collect()
}
