//! Figure 12: randomised task sets.

use anyhow::Result;
use quell_evidence::Measure;
use quell_model::Nanos;
use quell_sim::experiment::vas::{Scene, UTILISATIONS, periodic, random_tasks};
use quell_sim::workload::Order;
use rayon::prelude::*;

use super::{Effort, both, distance, recommended, sampled, varied};

/// Task sets of each utilisation.
const SETS: u64 = 10;

/// Points of a CPU on top of the least interface (§5).
const MARGIN: f64 = 5.0;

pub fn measures(effort: Effort) -> Result<Vec<Measure>> {
    let seeds: Vec<u64> = effort.seeds().collect();
    let cases: Vec<(usize, u64, u64)> = (0..UTILISATIONS.len())
        .flat_map(|at| (0..SETS).flat_map(move |set| [(at, set)]))
        .flat_map(|(at, set)| seeds.iter().map(move |&seed| (at, set, seed)))
        .collect();
    let distances: Result<Vec<(usize, u64, f64)>> =
        cases.into_par_iter().map(|(at, set, seed)| Ok((at, seed, case(effort, at, set, seed)?))).collect();
    let distances = distances?;
    let of = |is: &dyn Fn(usize, u64) -> bool| -> Vec<f64> {
        distances.iter().filter(|(at, seed, _)| is(*at, *seed)).map(|(.., distance)| *distance).collect()
    };
    let mean = |own: Vec<f64>| own.iter().sum::<f64>() / own.len() as f64;
    let largest = |seed: u64| of(&|_, other| other == seed).into_iter().fold(0.0, f64::max);
    let last = UTILISATIONS.len() - 1;
    let trend = |seed: u64| {
        mean(of(&|at, other| (at, other) == (0, seed))) / mean(of(&|at, other| (at, other) == (last, seed)))
    };
    let means: Vec<String> = UTILISATIONS
        .iter()
        .enumerate()
        .map(|(at, share)| format!("{:.2} at {share}", mean(of(&|other, _| other == at))))
        .collect();
    let sets = format!("{} task sets", UTILISATIONS.len() as u64 * SETS);
    let by_seed = |value: &dyn Fn(u64) -> f64| seeds.iter().map(|&seed| value(seed)).collect::<Vec<f64>>();
    Ok(vec![
        sampled("fig12.largest", &by_seed(&largest), &sets)?,
        sampled("fig12.trend", &by_seed(&trend), &format!("means, µs: {}", means.join(", ")))?,
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
