//! Figures 6 to 11: the synthetic server with Γ1 and Γ2.

use anyhow::Result;
use quell_evidence::Measure;
use quell_model::Nanos;
use quell_model::demand::Task;
use quell_sim::experiment::vas::{GAMMA1, GAMMA2, Scene, Seen, difference, periodic, sporadic, window};
use quell_sim::workload::{JobSource, Order};
use rayon::prelude::*;

use super::{Effort, both, distance, mean, recommended, sampled, varied};

const HYPERPERIOD: Nanos = Nanos::from_secs(2);

/// Threshold of a difference in activity, as in the claims.
const UNLIKE: f64 = 0.01;

/// A server of these tasks with the least interface and this many points of a CPU more or less.
fn scene(effort: Effort, tasks: &[Task], vcpu: Vec<JobSource>, order: Order, points: i32) -> Result<Scene> {
    let least = recommended(tasks, 0.0)?;
    let more = Nanos(least.period.0 / 100 * u64::from(points.unsigned_abs()));
    let budget = if points < 0 { least.budget - more } else { least.budget + more };
    Ok(Scene {
        vcpus: vec![vcpu],
        order,
        interface: (budget, least.period),
        neighbours: 1,
        phase: Nanos::ZERO,
        span: effort.span(100, 100),
        seed: 1,
    })
}

/// Runs a scene on a part of a CPU and on a whole one, for each seed.
fn seen(effort: Effort, scene: &Scene) -> Result<Vec<(Seen, Seen)>> {
    effort.seeds().into_par_iter().map(|seed| both(&varied(scene, seed))).collect()
}

/// The distance over the mean response time, by seed.
fn apart(all: &[(Seen, Seen)]) -> Vec<f64> {
    all.iter().map(|(part, whole)| distance(part, whole) / mean(&whole.latencies())).collect()
}

/// Difference of each hyperperiod's activity from the one before, by seed.
fn changes(effort: Effort, all: &[(Seen, Seen)]) -> Vec<f64> {
    let count = effort.span(100, 100).0 / HYPERPERIOD.0;
    let one = |(part, _): &(Seen, Seen)| {
        let at = |number: u64| window(&part.active, Nanos(HYPERPERIOD.0 * number), HYPERPERIOD);
        let steps = (2..count).map(|number| difference(&at(number - 1), &at(number), HYPERPERIOD));
        steps.sum::<f64>() / (count - 2) as f64
    };
    all.iter().map(one).collect()
}

/// Difference of the activity under two orders, by seed.
fn orders_apart(effort: Effort, one: &[(Seen, Seen)], other: &[(Seen, Seen)]) -> Vec<f64> {
    let span = effort.span(100, 100);
    one.iter().zip(other).map(|((one, _), (other, _))| difference(&one.active, &other.active, span)).collect()
}

pub fn measures(effort: Effort) -> Result<Vec<Measure>> {
    let gamma1 = |order| scene(effort, &GAMMA1, periodic(&GAMMA1, 1.0), order, 0);
    let (fifo, rm) = (seen(effort, &gamma1(Order::Fifo)?)?, seen(effort, &gamma1(Order::Rm)?)?);
    let random = |order| scene(effort, &GAMMA1, sporadic(&GAMMA1), order, 0);
    let (random_fifo, random_rm) = (seen(effort, &random(Order::Fifo)?)?, seen(effort, &random(Order::Rm)?)?);
    let gamma2 = |order| scene(effort, &GAMMA2, periodic(&GAMMA2, 1.0), order, 0);
    let (two_fifo, two_rm) = (seen(effort, &gamma2(Order::Fifo)?)?, seen(effort, &gamma2(Order::Rm)?)?);
    let with_margin = seen(effort, &scene(effort, &GAMMA2, periodic(&GAMMA2, 1.0), Order::Fifo, 5)?)?;
    let irregular: Vec<f64> = changes(effort, &random_fifo).into_iter().map(|change| UNLIKE / change).collect();
    let mut measures = vec![
        sampled("fig6.repeats", &changes(effort, &fifo), "")?,
        sampled("fig6.active", &orders_apart(effort, &fifo, &rm), "")?,
        sampled("fig7a.overlap", &apart(&fifo), "")?,
        sampled("fig7b.overlap", &apart(&rm), "")?,
        sampled("fig8.irregular", &irregular, "")?,
        sampled("fig8.active", &orders_apart(effort, &random_fifo, &random_rm), "")?,
        sampled("fig9a.overlap", &apart(&random_fifo), "")?,
        sampled("fig9b.overlap", &apart(&random_rm), "")?,
        sampled("fig10a.overlap", &apart(&two_fifo), "")?,
        sampled("fig10b.overlap", &apart(&two_rm), "")?,
        sampled("fig10.with-margin", &apart(&with_margin), "")?,
    ];
    measures.extend(figure11(effort, &rm)?);
    Ok(measures)
}

/// Practical overprovisioning: rate-monotonic priorities, 5 points less, none and 5 more.
fn figure11(effort: Effort, exact: &[(Seen, Seen)]) -> Result<Vec<Measure>> {
    let with =
        |part: f64, points: i32| seen(effort, &scene(effort, &GAMMA1, periodic(&GAMMA1, part), Order::Rm, points)?);
    let (minus, plus, less) = (with(1.0, -5)?, with(1.0, 5)?, with(0.9375, -5)?);
    let distances = |all: &[(Seen, Seen)], unit: f64| -> Vec<f64> {
        all.iter().map(|(part, whole)| distance(part, whole) / unit).collect()
    };
    let longest = |all: &[(Seen, Seen)]| -> Vec<f64> {
        let most = |(part, _): &(Seen, Seen)| part.latencies().into_iter().max().unwrap_or(0) as f64 / 1e6;
        all.iter().map(most).collect()
    };
    let exhausted: Vec<f64> = plus.iter().map(|(part, _)| part.exhausted as f64).collect();
    Ok(vec![
        sampled("margin.suffices", &exhausted, "")?,
        sampled("fig11.minus5", &distances(&minus, 1e6), "")?,
        sampled("fig11.exact", &distances(exact, 1e6), "")?,
        sampled("fig11.plus5", &distances(&plus, 1e3), &by_task(&plus))?,
        sampled("fig11.longest", &longest(&minus), "")?,
        sampled("fig11.minus5-less", &distances(&less, 1e6), "")?,
        sampled("fig11.longest-less", &longest(&less), "")?,
    ])
}

/// The distances of each task's response times: a distance of all of them mixes tasks.
fn by_task(all: &[(Seen, Seen)]) -> String {
    let of = |task: u32| {
        let own = |(part, whole): &(Seen, Seen)| {
            quell_report::stats::wasserstein(&mut part.latencies_of(task), &mut whole.latencies_of(task)) / 1e3
        };
        all.iter().map(own).sum::<f64>() / all.len() as f64
    };
    let each: Vec<String> = (0..GAMMA1.len() as u32).map(|task| format!("{:.1}", of(task))).collect();
    format!("by task {} µs", each.join(", "))
}
