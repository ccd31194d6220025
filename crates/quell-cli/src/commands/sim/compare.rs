//! Running what is planned, side by side.

use anyhow::Result;
use quell_model::Nanos;
use quell_policy::AnyPolicy;
use quell_sim::scenario::{Course, Detail, Observed, Point, Remark, Report, label, run_in_detail};
use quell_sim::workload::Latencies;
use rayon::prelude::*;

use super::plan::{Entry, Plan};
use super::progress::Progress;

/// One combination of swept values under one policy: all repetitions together.
pub struct Outcome {
    pub point: Point,
    pub report: Report,
    /// The first run's seed.
    pub seed: u64,
    /// What the scenario gives the policy.
    pub parameters: toml::Table,
    /// What the policy said.
    pub remarks: Vec<Remark>,
    /// The first repetition's course of time, if it was asked for.
    pub course: Option<Course>,
    /// By workload: each cell's latency, ns, and count; kept where the course is.
    pub latencies: Vec<Vec<(u64, u64)>>,
}

impl Outcome {
    /// Its policy, and what is swept.
    pub fn name(&self) -> String {
        let swept = self.point.iter().map(|(key, value)| format!(", {key}={}", label(value)));
        format!("{}{}", self.report.policy, swept.collect::<String>())
    }
}

/// Runs everything. The order of the outcomes is the plan's, whoever ends first.
pub fn all(plan: &Plan, detail: Detail, progress: &Progress) -> Result<Vec<Outcome>> {
    let jobs: Vec<(&Entry, &(String, AnyPolicy))> =
        plan.entries.iter().flat_map(|entry| entry.policies.iter().map(move |policy| (entry, policy))).collect();
    let outcomes = jobs.into_par_iter().map(|(entry, policy)| one(entry, policy, detail, progress)).collect();
    progress.end();
    outcomes
}

fn one(entry: &Entry, (name, policy): &(String, AnyPolicy), detail: Detail, progress: &Progress) -> Result<Outcome> {
    let scenario = &entry.scenario;
    let repetitions = 0..scenario.repetitions;
    let observed: Result<Vec<Observed>, _> = repetitions
        .into_par_iter()
        .map(|repetition| {
            // Intervals of several repetitions need no blocks; one course of time is shown.
            let detail = match (detail, repetition) {
                (Detail::Course, 0) => Detail::Course,
                _ if scenario.repetitions > 1 => Detail::Totals,
                _ => detail,
            };
            let mut shown = Nanos::ZERO;
            let seen = |now: Nanos| {
                if now >= shown + Nanos::from_millis(10) {
                    progress.passed(now - shown);
                    shown = now;
                }
            };
            let observed = run_in_detail(scenario, &mut policy.clone(), repetition, detail, seen);
            // A policy that seldom looks is seldom seen.
            progress.run_ended((scenario.warm_up + scenario.duration) - shown);
            observed
        })
        .collect();
    let mut observed = observed?;
    let report = scenario.report(name, &observed);
    let course = observed.first_mut().and_then(|first| first.course.take());
    let latencies = match course {
        None => Vec::new(),
        Some(_) => (0..scenario.workloads.len()).map(|at| cells(&observed, at)).collect(),
    };
    let parameters = scenario.policies.iter().find(|spec| spec.name == *name);
    Ok(Outcome {
        point: entry.point.clone(),
        report,
        seed: scenario.seed,
        parameters: parameters.map(|spec| spec.parameters.clone()).unwrap_or_default(),
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
