//! Figure 12: randomised task sets.

use anyhow::Result;
use quell_evidence::Row;
use quell_model::Nanos;
use quell_sim::experiment::vas::{Scene, UTILISATIONS, periodic, random_tasks};
use quell_sim::workload::Order;
use rayon::prelude::*;

use super::{Effort, both, distance, recommended, row, varied};

/// Task sets of each utilisation.
const SETS: u64 = 10;

/// Points of a CPU on top of the least interface (§5).
const MARGIN: f64 = 5.0;

pub fn rows(effort: Effort) -> Result<Vec<Row>> {
    let seeds: Vec<u64> = effort.seeds().collect();
    let cases: Vec<(usize, u64, u64)> = (0..UTILISATIONS.len())
        .flat_map(|at| (0..SETS).flat_map(move |set| [(at, set)]))
        .flat_map(|(at, set)| seeds.iter().map(move |&seed| (at, set, seed)))
        .collect();
    let distances: Result<Vec<(usize, f64)>> =
        cases.into_par_iter().map(|(at, set, seed)| Ok((at, case(effort, at, set, seed)?))).collect();
    let distances = distances?;
    let largest = distances.iter().map(|(_, distance)| *distance).fold(0.0, f64::max);
    let mean = |at: usize| {
        let own: Vec<f64> = distances.iter().filter(|(other, _)| *other == at).map(|(_, distance)| *distance).collect();
        own.iter().sum::<f64>() / own.len() as f64
    };
    let means: Vec<String> =
        UTILISATIONS.iter().enumerate().map(|(at, share)| format!("{:.2} at {share}", mean(at))).collect();
    let runs = format!("{} task sets, {} seeds each", UTILISATIONS.len() as u64 * SETS, seeds.len());
    Ok(vec![
        row("fig12.largest", largest, runs)?,
        row("fig12.trend", mean(0) / mean(UTILISATIONS.len() - 1), format!("means, µs: {}", means.join(", ")))?,
    ])
}

/// The distance of one task set, µs.
fn case(effort: Effort, at: usize, set: u64, seed: u64) -> Result<f64> {
    let tasks = random_tasks(UTILISATIONS[at], at as u64 * SETS + set);
    let interface = recommended(&tasks, MARGIN)?;
    let scene = Scene {
        vcpus: vec![periodic(&tasks, 1.0)],
        order: Order::Rm,
        interface: (interface.budget, interface.period),
        neighbours: 1,
        phase: Nanos::ZERO,
        span: effort.span(100, 30),
        seed,
    };
    let (part, whole) = both(&varied(&scene, seed))?;
    Ok(distance(&part, &whole) / 1e3)
}
