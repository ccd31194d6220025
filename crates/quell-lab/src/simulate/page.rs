//! The outcomes as a page: tables, latency distributions, the course of time, and the set-up.

use std::cmp::Reverse;

use quell_model::Nanos;
use quell_report::chart::{Axis, Chart, Form, Scale, Series, Unit, latency_chart};
use quell_report::page::{Block, Page, Row};
use quell_report::stats::Histogram;
use quell_sim::scenario::{Course, WorkloadCourse};

use super::compare::Outcome;
use super::plan::Plan;
use super::sweep_charts;
use super::table::{Sheet, machines, missed, said, what, workloads};

/// No chart has more curves, and no more workloads have charts of their own.
pub const MOST: usize = 8;

/// The page.
pub fn of(plan: &Plan, outcomes: &[Outcome]) -> Page {
    let scenario = plan.scenario();
    let sweeps = sweep_charts::all(plan, outcomes);
    let has_curves = outcomes.len() <= MOST;
    // Dots in the tables have the colours of the charts, where all charts agree on them.
    let colours: Vec<usize> = match (has_curves, sweeps.is_empty()) {
        (true, true) => (0..outcomes.len()).collect(),
        (false, false) => sweep_charts::colours(plan, outcomes),
        _ => Vec::new(),
    };
    let latencies =
        workloads(outcomes).without(&["class", "mean", "CPUs got", "asked", "waiting", "IPC", "LLC hits", "GB/s"]);
    let cpus =
        workloads(outcomes).without(&["done/s", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max", "over SLO"]);
    let shown = with_requests(outcomes);
    let mut blocks = Vec::new();
    if !shown.is_empty() {
        blocks.push(block(latencies.with_something_in("done/s"), &colours));
    }
    blocks.push(Block::Notes(notes(plan, outcomes)));
    if !sweeps.is_empty() {
        blocks.push(Block::Heading("Against what is swept".into()));
        blocks.extend(sweeps.into_iter().map(Block::Chart));
    }
    if has_curves && !shown.is_empty() {
        blocks.push(Block::Heading("Latency".into()));
        blocks.extend(shown.iter().map(|&at| Block::Chart(distribution(outcomes, at))));
        blocks.extend(shown.iter().map(|&at| Block::Chart(latency_over_time(outcomes, at))));
    }
    blocks.push(Block::Heading("CPUs".into()));
    blocks.extend([cpus, machines(outcomes)].map(|sheet| block(sheet, &colours)));
    if has_curves {
        blocks.extend(outcomes.iter().flat_map(cpus_over_time).map(Block::Chart));
    }
    let memory = if has_curves { memory_over_time(outcomes) } else { Vec::new() };
    if !memory.is_empty() {
        blocks.push(Block::Heading("Memory".into()));
        blocks.extend(memory.into_iter().map(Block::Chart));
    }
    blocks.push(Block::Heading("The scenario".into()));
    if !plan.changes.is_empty() {
        blocks.push(Block::Notes(plan.changes.clone()));
    }
    blocks.push(Block::Listing(plan.sweep.text().trim_end().to_owned()));
    let title = if scenario.title.is_empty() { "A simulated scenario".to_owned() } else { scenario.title.clone() };
    let subtitle = format!("Simulated by quell {} from seed {}.", env!("CARGO_PKG_VERSION"), scenario.seed);
    Page { title, subtitle, blocks }
}

fn block(sheet: Sheet, colours: &[usize]) -> Block {
    let row = |(number, cells): (usize, _)| Row { colour: colours.get(number).copied(), cells };
    Block::Table { head: sheet.head, rows: sheet.rows.into_iter().map(row).collect() }
}

fn notes(plan: &Plan, outcomes: &[Outcome]) -> Vec<String> {
    let mut notes = vec![what(plan).replace("in brackets", "below p99 and p99.9")];
    notes.push(format!(
        "{}: fewer than ten latencies lie beyond that quantile, or there are none. Latencies count from arrival, release \
         or the job's start. Decision time is what the model charges for deciding and acting.",
        quell_report::table::NOTHING
    ));
    notes.extend(missed(outcomes));
    notes.extend(said(outcomes));
    notes.extend(plan.limits.iter().cloned());
    let workloads = plan.scenario().workloads.len();
    if outcomes.len() > MOST {
        notes.push(format!(
            "Of more than {MOST} outcomes there are no curves over time; --against or --set picks some."
        ));
    } else if workloads > MOST {
        notes.push(format!("Charts show {MOST} of the {workloads} workloads: those that did or used most."));
    }
    notes
}

/// The workloads with requests, or those of them that completed most, in the scenario's order.
pub fn with_requests(outcomes: &[Outcome]) -> Vec<usize> {
    most(outcomes, |outcome, at| outcome.report.workloads[at].completed as f64)
}

/// Up to [`MOST`] workloads of which there is most, and at least something.
pub fn most(outcomes: &[Outcome], amount: impl Fn(&Outcome, usize) -> f64) -> Vec<usize> {
    let count = outcomes.iter().map(|outcome| outcome.report.workloads.len()).min().unwrap_or(0);
    let sum = |at: usize| outcomes.iter().map(|outcome| amount(outcome, at)).sum::<f64>();
    let mut ranked: Vec<(usize, f64)> = (0..count).map(|at| (at, sum(at))).filter(|&(_, sum)| sum > 0.0).collect();
    ranked.sort_by_key(|&(at, sum)| (Reverse((sum * 1e6) as u64), at));
    let mut shown: Vec<usize> = ranked.into_iter().take(MOST).map(|(at, _)| at).collect();
    shown.sort_unstable();
    shown
}

fn workload_name(outcomes: &[Outcome], at: usize) -> &str {
    &outcomes[0].report.workloads[at].name
}

fn distribution(outcomes: &[Outcome], at: usize) -> Chart {
    let of = |outcome: &Outcome| {
        let mut histogram = Histogram::default();
        outcome.latencies.get(at).into_iter().flatten().for_each(|&(ns, count)| histogram.record_many(ns, count));
        histogram
    };
    let names: Vec<String> = outcomes.iter().map(Outcome::name).collect();
    let all: Vec<Histogram> = outcomes.iter().map(of).collect();
    let series = names.iter().zip(&all).enumerate().filter(|(_, (_, of))| of.count() > 0);
    let mut chart = latency_chart(series.map(|(colour, (name, of))| (name.as_str(), colour, of)));
    chart.title = format!("Latency distribution of {}", workload_name(outcomes, at));
    chart.x.label = "latency".into();
    chart
}

fn time_axis(outcomes: &[Outcome]) -> Axis {
    let ends = outcomes.iter().filter_map(|outcome| outcome.course.as_ref()?.ends.last());
    let end = ends.max().copied().unwrap_or(Nanos(1)).0 as f64;
    Axis::new("simulated time since the warm-up", Scale::Linear, Unit::Nanoseconds).between(0.0, end)
}

fn latency_over_time(outcomes: &[Outcome], at: usize) -> Chart {
    let part = outcomes.iter().find_map(|outcome| outcome.course.as_ref()?.ends.first().copied()).unwrap_or_default();
    let title = format!("p99 of {} in each {}", workload_name(outcomes, at), quell_report::human::nanoseconds(part.0));
    let mut chart = Chart::new(title, time_axis(outcomes), Axis::new("p99 latency", Scale::Log, Unit::Nanoseconds));
    for (colour, outcome) in outcomes.iter().enumerate() {
        let Some(course) = &outcome.course else { continue };
        let latency = |time: &Option<Nanos>| time.map_or(f64::NAN, |time| time.0 as f64);
        let points = steps(course, course.workloads[at].p99.iter().map(latency));
        chart.series.push(Series { name: outcome.name(), form: Form::Steps, colour, points });
    }
    chart
}

/// Memory bandwidth in use under each policy, and by each of the workloads that use most.
fn memory_over_time(outcomes: &[Outcome]) -> Vec<Chart> {
    let chart = |title: String, of: &dyn Fn(&Course) -> Option<&Vec<f64>>| {
        let mut chart = Chart::new(title, time_axis(outcomes), Axis::new("GB/s", Scale::Linear, Unit::Plain));
        for (colour, outcome) in outcomes.iter().enumerate() {
            let Some((course, used)) = outcome.course.as_ref().and_then(|course| Some((course, of(course)?))) else {
                continue;
            };
            let points = steps(course, used.iter().map(|used| used / 1e9));
            chart.series.push(Series { name: outcome.name(), form: Form::Steps, colour, points });
        }
        chart
    };
    let used = |outcome: &Outcome, at: usize| {
        outcome.report.workloads[at].counters.map_or(0.0, |counters| counters.memory_bandwidth / 1e9)
    };
    let mut charts = vec![chart("Memory bandwidth in use".into(), &|course| course.memory_bandwidth.as_ref())];
    for at in most(outcomes, used) {
        let title = format!("Memory bandwidth of {}", workload_name(outcomes, at));
        charts.push(chart(title, &|course| course.workloads.get(at)?.memory_bandwidth.as_ref()));
    }
    charts.retain(|chart| !chart.series.is_empty());
    charts
}

/// CPUs that each workload got, and held where CPUs are granted; of many workloads the smaller ones together.
fn cpus_over_time(outcome: &Outcome) -> Vec<Chart> {
    let Some(course) = &outcome.course else { return Vec::new() };
    let one = std::slice::from_ref(outcome);
    let mut shown = most(one, |outcome, at| outcome.report.workloads[at].cpus_got.max(1e-6));
    shown.retain(|&at| at < course.workloads.len());
    if shown.len() < course.workloads.len() {
        let least = |&at: &usize| (outcome.report.workloads[at].cpus_got * 1e9) as u64;
        let least = shown.iter().copied().min_by_key(least);
        shown.retain(|&at| Some(at) != least);
    }
    let rest: Vec<usize> = (0..course.workloads.len()).filter(|at| !shown.contains(at)).collect();
    let mut curves: Vec<(String, Vec<usize>)> =
        shown.iter().map(|&at| (course.workloads[at].name.clone(), vec![at])).collect();
    if !rest.is_empty() {
        curves.push((format!("the other {}", rest.len()), rest));
    }
    let chart = |title: &str, of: &dyn Fn(&WorkloadCourse) -> Option<&Vec<f64>>| {
        let axis = Axis::new("CPUs", Scale::Linear, Unit::Plain);
        let mut chart = Chart::new(format!("{title}: {}", outcome.name()), time_axis(one), axis);
        for (colour, (name, workloads)) in curves.iter().enumerate() {
            let columns: Option<Vec<&Vec<f64>>> = workloads.iter().map(|&at| of(&course.workloads[at])).collect();
            let Some(columns) = columns else { continue };
            let sums = (0..course.ends.len()).map(|part| columns.iter().map(|column| column[part]).sum());
            let points = steps(course, sums);
            chart.series.push(Series { name: name.clone(), form: Form::Steps, colour, points });
        }
        chart
    };
    let got = chart("CPUs got", &|workload| Some(&workload.cpus_got));
    let granted = chart("CPUs granted", &|workload| workload.cpus_granted.as_ref());
    [got, granted].into_iter().filter(|chart| !chart.series.is_empty()).collect()
}

/// A value for each part of the time, from its beginning to its end.
fn steps(course: &Course, values: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    let begins = [Nanos::ZERO].into_iter().chain(course.ends.iter().copied());
    let parts = begins.zip(&course.ends).zip(values);
    parts.flat_map(|((from, to), value)| [(from.0 as f64, value), (to.0 as f64, value)]).collect()
}
