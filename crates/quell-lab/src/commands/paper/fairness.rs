//! `quell-lab paper fairness`: shares of simulated CPUs, and schedules.

use anyhow::{Context, Result};
use quell_evidence::{Found, Measure, topic};
use quell_model::{CpuCount, Nanos};
use quell_report::human;
use quell_sim::experiment::shares::{self, Interactive, Span, Table2, hog, kernel, nested};
use quell_sim::experiment::task_sets::{Scheduling, TaskSet};
use quell_sim::{FairScheduler, KernelConfig, WorkloadSpec};
use rayon::prelude::*;

use super::progress_bar;
use super::trial::{self, Figure, Kept, Trial};

const SCHEDULERS: [(&str, FairScheduler); 2] = [("eevdf", FairScheduler::Eevdf), ("cfs", FairScheduler::Cfs)];

/// A case: its claim's name, and a function for its value and a note.
type Case = (&'static str, fn(KernelConfig, Span) -> Result<(f64, String)>);

const CASES: [Case; 14] = [
    ("weights", weights),
    ("nested", groups),
    ("quota", quotas),
    ("idle-thread", idle_thread),
    ("idle-group", idle_group),
    ("figure3a", |kernel, span| batch(BURSTABLE, kernel, span)),
    ("figure3b", |kernel, span| batch(CAPPED, KernelConfig { bandwidth_slice: FINE, tick: FINE, ..kernel }, span)),
    ("figure3b-pieces", |kernel, span| batch(CAPPED, kernel, span)),
    ("unpinned", |kernel, span| gap(Table2 { pinned: false, ..BURSTABLE }, kernel, span)),
    ("unpinned-capped", |kernel, span| gap(Table2 { pinned: false, ..CAPPED }, kernel, span)),
    ("figure4a", |kernel, span| latency(BURSTABLE, kernel, span)),
    ("figure4b", |kernel, span| latency(CAPPED, kernel, span)),
    ("figure4b-frequency", frequency),
    ("figure4b-phantom", phantom),
];

const BURSTABLE: Table2 = Table2 { capped: false, pinned: true };
const CAPPED: Table2 = Table2 { capped: true, pinned: true };

/// Pieces of quota, and ticks that notice when they are used up, as short as in a drawing.
const FINE: Nanos = Nanos::from_micros(100);

/// Runs all cases.
pub fn run(quick: bool, kept: &Kept) -> Result<Figure> {
    let mut all =
        kept.trials("fairness", quick, |trial| Ok(Figure { measures: shared(trial)?, ..Figure::default() }))?;
    for (name, scheduling) in [("simso.rm", Scheduling::RateMonotonic), ("simso.edf", Scheduling::EarliestDeadline)] {
        all.measures.push(schedules(name, scheduling)?);
    }
    Ok(all)
}

fn shared(trial: Trial) -> Result<Vec<Measure>> {
    let length = if trial.quick { Nanos::from_secs(100) } else { Nanos::from_secs(1000) };
    let span = Span { seed: trial.seed, length };
    let jobs: Vec<(Case, &str, FairScheduler)> =
        CASES.iter().flat_map(|&case| SCHEDULERS.map(|(name, fair)| (case, name, fair))).collect();
    let bar = progress_bar(jobs.len() as u64);
    let measures = jobs.par_iter().with_max_len(1).map(|&((name, case), scheduler, fair)| {
        let (value, note) = case(kernel(fair), span)?;
        bar.inc(1);
        found(&format!("{name}.{scheduler}"), Found::Seeds(vec![value]), note)
    });
    let measures = measures.collect();
    bar.finish_and_clear();
    measures
}

fn found(name: &str, found: Found, note: String) -> Result<Measure> {
    trial::found(topic("fairness").context("there are no claims of fairness")?, name, found, note)
}

/// The largest deviation from each one's due share, as a part of it.
fn worst(got: &[f64], due: &[f64]) -> (f64, String) {
    let deviation = |(got, due): (&f64, &f64)| (got / due - 1.0).abs();
    let list = |values: &[f64]| values.iter().map(|value| format!("{value:.4}")).collect::<Vec<_>>().join(", ");
    let note = format!("got {} of a CPU, due {}", list(got), list(due));
    (got.iter().zip(due).map(deviation).fold(0.0, f64::max), note)
}

fn weights(kernel: KernelConfig, span: Span) -> Result<(f64, String)> {
    let got = shares::shares(1, kernel, &[hog("a", 100, 1), hog("b", 200, 1), hog("c", 500, 1)], span)?;
    Ok(worst(&got, &[1.0 / 8.0, 2.0 / 8.0, 5.0 / 8.0]))
}

fn groups(kernel: KernelConfig, span: Span) -> Result<(f64, String)> {
    let (workloads, due) = nested();
    Ok(worst(&shares::shares(1, kernel, &workloads, span)?, &due))
}

fn quotas(kernel: KernelConfig, span: Span) -> Result<(f64, String)> {
    let (mut got, mut due) = (Vec::new(), Vec::new());
    for (cpus, threads, quota) in [(1, 1, 300), (1, 3, 500), (4, 4, 1500), (4, 8, 2500)] {
        let limited = WorkloadSpec { quota: Some(CpuCount(quota)), ..hog("limited", 100, threads) };
        got.extend(shares::shares(cpus, kernel.clone(), &[limited], span)?);
        due.push(f64::from(quota) / 1000.0);
    }
    Ok(worst(&got, &due))
}

fn idle_thread(kernel: KernelConfig, span: Span) -> Result<(f64, String)> {
    let ordinary = shares::beside_idle_thread(kernel, span)?;
    Ok((1.0 - ordinary, format!("the ordinary one gets {ordinary:.5}")))
}

fn idle_group(kernel: KernelConfig, span: Span) -> Result<(f64, String)> {
    let idle = WorkloadSpec { idle: true, ..hog("idle", 100, 4) };
    let got = shares::shares(1, kernel, &[hog("ordinary", 100, 1), idle], span)?;
    Ok((got[1], format!("the ordinary one gets {:.5}", got[0])))
}

fn batch(table: Table2, kernel: KernelConfig, span: Span) -> Result<(f64, String)> {
    Ok((table.batch_target(kernel, span)?, String::new()))
}

fn gap(table: Table2, kernel: KernelConfig, span: Span) -> Result<(f64, String)> {
    let got = table.batch_target(kernel, span)?;
    Ok((1.0 - got, format!("the target gets {} of its request", human::percent(got))))
}

fn latency(table: Table2, kernel: KernelConfig, span: Span) -> Result<(f64, String)> {
    let (alone, there) = both(table, kernel, span)?;
    let note = format!(
        "mean latency {} alone, {} there",
        human::nanoseconds(alone.latency.0),
        human::nanoseconds(there.latency.0)
    );
    Ok((alone.latency.0 as f64 / there.latency.0 as f64, note))
}

fn both(table: Table2, kernel: KernelConfig, span: Span) -> Result<(Interactive, Interactive)> {
    let alone = table.interactive_target(kernel.clone(), false, span)?;
    Ok((alone, table.interactive_target(kernel, true, span)?))
}

fn frequency(kernel: KernelConfig, span: Span) -> Result<(f64, String)> {
    let burstable = BURSTABLE.interactive_target(kernel.clone(), true, span)?.requests_per_second;
    let capped = CAPPED.interactive_target(kernel, true, span)?.requests_per_second;
    let note = format!("{} beside the burstable, {} beside the capped", human::rate(burstable), human::rate(capped));
    Ok((burstable / capped, note))
}

fn phantom(kernel: KernelConfig, span: Span) -> Result<(f64, String)> {
    let (alone, there) = both(CAPPED, kernel, span)?;
    let idle = 3.0 - there.cpus - there.neighbour_cpus;
    let note = format!("{:.2} of its CPU, {:.2} alone; {idle:.2} CPUs idle", there.cpus, alone.cpus);
    Ok((there.cpus / alone.cpus, note))
}

fn schedules(name: &str, scheduling: Scheduling) -> Result<Measure> {
    let (mut equal, mut late, mut stretches) = (0, 0, 0);
    let mut others = Vec::new();
    let sets = TaskSet::all();
    for (number, set) in sets.iter().enumerate() {
        let (ours, missed) = set.simulate(scheduling)?;
        late += u64::from(missed > 0);
        stretches += ours.len();
        if ours == set.simso(scheduling) {
            equal += 1;
        } else {
            others.push(number.to_string());
        }
    }
    let mut note = format!("{stretches} stretches; jobs miss their deadline in {late} of {} sets", sets.len());
    if !others.is_empty() {
        note += &format!("; other schedules: sets {}", others.join(", "));
    }
    // Nothing is random: the task sets are given.
    found(name, Found::Exact(f64::from(equal)), note)
}
