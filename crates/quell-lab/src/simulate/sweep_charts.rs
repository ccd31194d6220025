//! Latency, throughput and CPUs against a swept number.

use quell_model::Nanos;
use quell_report::chart::{Axis, Chart, Form, Scale, Series, Unit};
use quell_sim::scenario::{WorkloadReport, label};
use toml::Value;

use super::compare::Outcome;
use super::page::{MOST, most, with_requests};
use super::plan::Plan;

/// The charts; none if no number is swept, or if there are too many curves to distinguish them.
pub fn all(plan: &Plan, outcomes: &[Outcome]) -> Vec<Chart> {
    let Some(axis) = axis(plan) else { return Vec::new() };
    let key = &plan.sweep.axes()[axis].key;
    let unit = if plan.sweep.axes()[axis].values.iter().all(Value::is_str) { Unit::Nanoseconds } else { Unit::Plain };
    let curve = |outcome: &Outcome| curve(outcome, axis);
    let curves = curves(outcomes, axis);
    if curves.len() > MOST {
        return Vec::new();
    }
    let chart = |at: usize, what: &str, y: Axis, of: &dyn Fn(&WorkloadReport) -> Option<f64>| {
        let title = format!("{what} of {} against {key}", outcomes[0].report.workloads[at].name);
        let mut chart = Chart::new(title, Axis::new(key, Scale::Linear, unit), y);
        for (colour, name) in curves.iter().enumerate() {
            let own = outcomes.iter().filter(|outcome| curve(outcome) == *name);
            let point = |outcome: &Outcome| {
                let x = number(&outcome.point[axis].1).unwrap_or(f64::NAN);
                (x, of(&outcome.report.workloads[at]).unwrap_or(f64::NAN))
            };
            let mut points: Vec<(f64, f64)> = own.map(point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            chart.series.push(Series { name: name.clone(), form: Form::Line, colour, points: points.clone() });
            chart.series.push(Series { name: String::new(), form: Form::Points, colour, points });
        }
        chart
    };
    let is_same_everywhere = outcomes.iter().all(|o| o.report.workloads.len() == outcomes[0].report.workloads.len());
    if !is_same_everywhere {
        return Vec::new();
    }
    let requests = with_requests(outcomes);
    let used = most(outcomes, |outcome, at| outcome.report.workloads[at].cpus_got);
    let mut charts = Vec::new();
    for &at in &requests {
        let latency = Axis::new("p99 latency", Scale::Log, Unit::Nanoseconds);
        charts.push(chart(at, "p99", latency, &|workload| workload.quantiles()[2].map(|time| time.0 as f64)));
        let rate = Axis::new("done per second", Scale::Linear, Unit::PerSecond);
        charts.push(chart(at, "Throughput", rate, &|workload| Some(workload.throughput)));
    }
    for at in used.into_iter().filter(|at| !requests.contains(at)) {
        let cpus = Axis::new("CPUs", Scale::Linear, Unit::Plain);
        charts.push(chart(at, "CPUs got", cpus, &|workload| Some(workload.cpus_got)));
    }
    charts
}

/// By outcome: the colour of its curve.
pub fn colours(plan: &Plan, outcomes: &[Outcome]) -> Vec<usize> {
    let axis = axis(plan).unwrap_or(usize::MAX);
    let curves = curves(outcomes, axis);
    let colour = |outcome: &Outcome| curves.iter().position(|name| *name == curve(outcome, axis)).unwrap_or(0);
    outcomes.iter().map(colour).collect()
}

/// The first swept key whose values are numbers.
fn axis(plan: &Plan) -> Option<usize> {
    let is_number = |values: &[Value]| values.len() > 1 && values.iter().all(|value| number(value).is_some());
    plan.sweep.axes().iter().position(|axis| is_number(&axis.values))
}

/// One curve for each policy and each combination of the other keys.
fn curves(outcomes: &[Outcome], axis: usize) -> Vec<String> {
    let mut curves: Vec<String> = Vec::new();
    for name in outcomes.iter().map(|outcome| curve(outcome, axis)) {
        if !curves.contains(&name) {
            curves.push(name);
        }
    }
    curves
}

fn curve(outcome: &Outcome, axis: usize) -> String {
    let others = outcome.point.iter().enumerate().filter(|&(at, _)| at != axis);
    let others = others.map(|(_, (key, value))| format!(", {key}={}", label(value)));
    format!("{}{}", outcome.report.policy, others.collect::<String>())
}

/// A number, or a time in ns.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        Value::String(text) => text.parse::<Nanos>().ok().map(|time| time.0 as f64),
        _ => None,
    }
}
