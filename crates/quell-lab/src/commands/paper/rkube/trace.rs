//! Figure 12: machines of a synthetic trace.

use std::time::Instant;

use anyhow::Result;
use quell_evidence::Measure;
use quell_model::Nanos;
use quell_sim::experiment::rkube::{Jobs, Served, Span};
use rayon::prelude::*;

use super::grid::policy;
use super::{measure, range};
use crate::commands::paper::progress_bar;
use crate::commands::paper::trial::Trial;

/// "We randomly choose 50 machines from the traces" (§6.5).
const MACHINES: u32 = 50;
const QUICK_MACHINES: u32 = 3;
/// Number of machines that are run again with as many threads in each service as CPUs requested: the effect of an
/// unknown of the trace.
const FULL_MACHINES: u32 = 10;

pub fn measures(trial: Trial) -> Result<Vec<Measure>> {
    let machines = if trial.quick { QUICK_MACHINES } else { MACHINES };
    let drawn = (0..machines).map(Jobs::of_machine);
    let full = (0..if trial.quick || !trial.is_first() { 0 } else { FULL_MACHINES })
        .map(|number| Jobs::of_machine(number).with_full_services());
    let began = Instant::now();
    let served = served(drawn.chain(full).collect(), trial)?;
    eprintln!("Figure 12: {} machines, each twice, in {:.1} s", served.len(), began.elapsed().as_secs_f64());
    let (drawn, full) = served.split_at(machines as usize);
    let cases = [Ratios::new(drawn), Ratios::new(full)];
    let note = |of: fn(&Ratios) -> &[f64]| {
        let [drawn, full] = cases.each_ref().map(of);
        let (least, most) = range(drawn.iter().copied());
        let mut note = format!("{} machines, from {least:.2} to {most:.2}", drawn.len());
        if !full.is_empty() {
            note += &format!("; {} with as many threads as CPUs requested: {:.2}", full.len(), mean(full));
        }
        note
    };
    let [drawn, _] = &cases;
    Ok(vec![
        measure("fig12.rate", mean(&drawn.rates), note(|ratios| &ratios.rates))?,
        measure("fig12.p99", mean(&drawn.tails), note(|ratios| &ratios.tails))?,
        measure("fig12.p99-most", range(drawn.tails.iter().copied()).1, "")?,
        measure("fig12.batch", mean(&drawn.batch), note(|ratios| &ratios.batch))?,
    ])
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Each machine without rKube and with it.
fn served(jobs: Vec<Jobs>, trial: Trial) -> Result<Vec<[Served; 2]>> {
    let measured = Nanos::from_millis(if trial.quick { 700 } else { 2_000 });
    let span = Span { seed: trial.seed, warm_up: Nanos::from_millis(300), measured };
    let bar = progress_bar(jobs.len() as u64);
    let served = jobs.par_iter().with_max_len(1).map(|jobs| {
        let both = [jobs.run(&mut policy(false)?, span)?, jobs.run(&mut policy(true)?, span)?];
        bar.inc(1);
        Ok(both)
    });
    let served = served.collect();
    bar.finish_and_clear();
    served
}

/// By machine: rates and batch jobs with rKube over those without, tails without over those with it.
struct Ratios {
    rates: Vec<f64>,
    tails: Vec<f64>,
    batch: Vec<f64>,
}

impl Ratios {
    fn new(served: &[[Served; 2]]) -> Ratios {
        let ratios = |of: fn(&[Served; 2]) -> f64| served.iter().map(of).collect();
        Ratios {
            rates: ratios(|[without, with]| with.rate / without.rate),
            tails: ratios(|[without, with]| without.p99.0 as f64 / with.p99.0 as f64),
            batch: ratios(|[without, with]| with.batch / without.batch),
        }
    }
}
