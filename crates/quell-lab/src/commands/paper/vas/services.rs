//! Figures 13, 14 and 18: Redis and Spark.

use anyhow::Result;
use quell_evidence::Measure;
use quell_model::Nanos;
use quell_report::stats::wasserstein;
use quell_sim::experiment::vas::{SPARK, Scene, Seen, periodic, redis, source};
use quell_sim::workload::{Order, Service};
use rayon::prelude::*;

use super::{Effort, both, distance, exact, recommended, sampled, varied};

/// Points of a CPU on top of the least interface (L327).
const MARGIN: f64 = 5.0;

/// Redis VMs beside each other (L329).
const TENANTS: usize = 7;

/// The shortest time of a batch: with it two runs on whole CPUs are as far apart as the paper's (L363).
const SHORTEST_BATCH: Nanos = Nanos::from_millis(3_026);

/// VCPUs of the Spark VM.
const WORKERS: usize = 4;

pub fn measures(effort: Effort) -> Result<Vec<Measure>> {
    let mut measures = single(effort)?;
    measures.extend(tenants(effort)?);
    measures.extend(spark(effort)?);
    Ok(measures)
}

fn redis_scene(vms: usize, span: Nanos) -> Result<Scene> {
    let interface = recommended(&redis(), MARGIN)?;
    Ok(Scene {
        vcpus: vec![periodic(&redis(), 1.0); vms],
        order: Order::Fifo,
        interface: (interface.budget, interface.period),
        neighbours: 1,
        phase: Nanos::ZERO,
        span,
        seed: 1,
    })
}

fn single(effort: Effort) -> Result<Vec<Measure>> {
    let scene = redis_scene(1, effort.span(20, 5))?;
    let all: Result<Vec<(Seen, Seen)>> =
        effort.seeds().into_par_iter().map(|seed| both(&varied(&scene, seed))).collect();
    let all = all?;
    let asked: f64 = redis().iter().map(|task| task.work.0 as f64 / task.period.0 as f64).sum();
    let (budget, period) = scene.interface;
    let left: Vec<f64> = all.iter().map(|(part, _)| 0.23 / part.neighbour).collect();
    let distances: Vec<f64> = all.iter().map(|(part, whole)| distance(part, whole) / 1e3).collect();
    Ok(vec![
        exact("redis.utilisation", asked, "")?,
        sampled("redis.left", &left, &format!("budget {} every {}", budget.exact(), period.exact()))?,
        sampled("redis.distance", &distances, "")?,
    ])
}

fn tenants(effort: Effort) -> Result<Vec<Measure>> {
    let scene = redis_scene(TENANTS, effort.span(5, 1))?;
    let all: Result<Vec<(Seen, Seen)>> =
        effort.seeds().into_par_iter().map(|seed| both(&varied(&scene, seed))).collect();
    let each = |(part, whole): &(Seen, Seen)| -> Vec<f64> {
        let latencies = |seen: &Seen, at: usize| seen.jobs[at].iter().map(|job| (job.done - job.released).0).collect();
        let own = |at| {
            let (mut part, mut whole): (Vec<u64>, Vec<u64>) = (latencies(part, at), latencies(whole, at));
            wasserstein(&mut part, &mut whole) / 1e3
        };
        (0..TENANTS).map(own).collect()
    };
    let by_seed: Vec<Vec<f64>> = all?.iter().map(each).collect();
    let mean = |all: &Vec<f64>| all.iter().sum::<f64>() / all.len() as f64;
    let means: Vec<f64> = by_seed.iter().map(mean).collect();
    let spread = |all: &Vec<f64>| {
        let (least, most) =
            all.iter().fold((f64::INFINITY, 0.0), |(least, most), &one| (one.min(least), one.max(most)));
        (most - least) / mean(all)
    };
    let spreads: Vec<f64> = by_seed.iter().map(spread).collect();
    Ok(vec![sampled("fig14.distance", &means, "")?, sampled("fig14.consistent", &spreads, "")?])
}

/// Each worker's work differs from batch to batch; every run draws its own.
fn spark_scene(effort: Effort, seed: u64) -> Scene {
    let work = || Service::Uniform { from: SHORTEST_BATCH, to: SPARK.work };
    Scene {
        vcpus: (0..WORKERS).map(|_| vec![source(&SPARK, work(), None)]).collect(),
        order: Order::Fifo,
        interface: (Nanos::from_millis(3_750), SPARK.period),
        neighbours: 1,
        phase: Nanos::ZERO,
        // 26 minutes (L363).
        span: effort.span(1_560, 1_560),
        seed,
    }
}

/// Runs of each kind: every two of them are compared, since their distance is a matter of chance.
const RUNS: u64 = 3;

fn spark(effort: Effort) -> Result<Vec<Measure>> {
    let runs = |seed: u64| -> Result<[Vec<Vec<u64>>; 2]> {
        let scene = |run: u64| varied(&spark_scene(effort, seed), 10 * seed + run);
        let elapsed = |scene: Scene| Ok::<_, anyhow::Error>(scene.run()?.elapsed());
        let whole = (0..RUNS).map(|run| elapsed(scene(run).whole())).collect::<Result<_>>()?;
        let part = (RUNS..2 * RUNS).map(|run| elapsed(scene(run))).collect::<Result<_>>()?;
        Ok([whole, part])
    };
    let all: Result<Vec<[Vec<Vec<u64>>; 2]>> = effort.seeds().into_par_iter().map(runs).collect();
    let (mut whole, mut part, mut longest) = (Vec::new(), Vec::new(), 0);
    let apart = |pairs: Vec<(&Vec<u64>, &Vec<u64>)>| {
        let all = pairs.iter().map(|(one, other)| wasserstein(&mut (*one).clone(), &mut (*other).clone()) / 1e6);
        all.sum::<f64>() / pairs.len() as f64
    };
    for [on_whole, on_part] in all? {
        let others = |at: usize| on_whole[at + 1..].iter();
        whole.push(apart(
            on_whole.iter().enumerate().flat_map(|(at, one)| others(at).map(move |two| (one, two))).collect(),
        ));
        part.push(apart(on_whole.iter().flat_map(|one| on_part.iter().map(move |two| (one, two))).collect()));
        longest = longest.max(on_whole.iter().flatten().copied().max().unwrap_or(0));
    }
    let ratios: Vec<f64> = part.iter().zip(&whole).map(|(part, whole)| part / whole).collect();
    let utilisation = SPARK.work.0 as f64 / SPARK.period.0 as f64;
    let spread = format!("each worker's time is drawn from {} to {}", SHORTEST_BATCH, SPARK.work);
    Ok(vec![
        exact("spark.longest", longest as f64 / 1e6, "")?,
        exact("spark.utilisation", utilisation, "")?,
        exact("spark.budget", 0.75 * SPARK.period.0 as f64 / 1e6, "")?,
        sampled("spark.whole", &whole, &spread)?,
        sampled("spark.part", &part, "")?,
        sampled("spark.comparable", &ratios, "")?,
    ])
}
