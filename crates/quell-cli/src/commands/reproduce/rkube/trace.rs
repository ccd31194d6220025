//! Figure 12: machines of a synthetic trace.

use std::time::Instant;

use anyhow::Result;
use quell_evidence::Row;
use quell_model::Nanos;
use quell_sim::experiment::rkube::{Jobs, Served, Span};
use rayon::prelude::*;

use super::grid::policy;
use super::{range, row};
use crate::commands::reproduce::progress_bar;

/// "We randomly choose 50 machines from the traces" (§6.5).
const MACHINES: u32 = 50;
const QUICK_MACHINES: u32 = 3;

pub fn rows(quick: bool) -> Result<Vec<Row>> {
    let (machines, measured) = if quick { (QUICK_MACHINES, 700) } else { (MACHINES, 2_000) };
    let span = Span { warm_up: Nanos::from_millis(300), measured: Nanos::from_millis(measured) };
    let began = Instant::now();
    let bar = progress_bar(u64::from(machines));
    let served: Result<Vec<(Served, Served)>> = (0..machines)
        .into_par_iter()
        .with_max_len(1)
        .map(|number| {
            let jobs = Jobs::of_machine(number);
            let both = (jobs.run(&mut policy(false)?, span)?, jobs.run(&mut policy(true)?, span)?);
            bar.inc(1);
            Ok(both)
        })
        .collect();
    bar.finish_and_clear();
    eprintln!("Figure 12: {machines} machines, each twice, in {:.1} s", began.elapsed().as_secs_f64());
    let served = served?;
    let ratios = |of: fn(&(Served, Served)) -> f64| served.iter().map(of).collect::<Vec<f64>>();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let note = |values: &[f64]| {
        let (least, most) = range(values.iter().copied());
        format!("{} machines, from {least:.2} to {most:.2}", values.len())
    };
    let rates = ratios(|(without, with)| with.rate / without.rate);
    let tails = ratios(|(without, with)| without.p99.0 as f64 / with.p99.0 as f64);
    let batch = ratios(|(without, with)| with.batch / without.batch);
    Ok(vec![
        row("fig12.rate", mean(&rates), note(&rates))?,
        row("fig12.p99", mean(&tails), note(&tails))?,
        row("fig12.p99-most", range(tails.iter().copied()).1, "")?,
        row("fig12.batch", mean(&batch), note(&batch))?,
    ])
}
