//! `quell reproduce caladan`: Caladan's evaluation, simulated; and with `--real` what Quell's kernel half promises.

mod colocation;
mod constant;
mod many;
mod pairs;
mod parts;
mod phases;
mod real;
mod scale;
mod unmodified;

use std::time::Instant;

pub use real::ALL as ALL_SCENES;

use anyhow::{Context, Result};
use quell_bench::human;
use quell_bench::report::Block;
use quell_evidence::{Claim, Row, caladan};
use rayon::prelude::*;

/// Rows, and pictures for the page.
pub struct Figure {
    pub rows: Vec<Row>,
    pub blocks: Vec<Block>,
}

type Run = fn(bool) -> Result<Figure>;

/// In the order of the page.
const FIGURES: &[(&str, Run)] = &[
    ("Table 1", phases::table1),
    ("Figure 1", phases::figure1),
    ("Figure 4", constant::figure4),
    ("Figure 5", phases::figure5),
    ("Figure 6", pairs::figure6),
    ("Figure 7", many::figure7),
    ("Figure 8b", many::figure8b),
    ("Figure 8c", parts::figure8c),
    ("Figure 9", parts::figure9),
    ("Figure 10", parts::figure10),
    ("Unmodified servers", unmodified::unmodified),
    ("Scale", scale::study),
];

/// Runs everything; of what needs a real kernel these scenes.
pub fn run(quick: bool, real: &[String]) -> Result<Figure> {
    let figures: Result<Vec<Figure>> = FIGURES
        .par_iter()
        .with_max_len(1)
        .map(|(name, run)| {
            let began = Instant::now();
            let figure = run(quick)?;
            eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f64());
            Ok(figure)
        })
        .collect();
    let mut all = Figure { rows: Vec::new(), blocks: Vec::new() };
    for figure in figures? {
        all.rows.extend(figure.rows);
        all.blocks.extend(figure.blocks);
    }
    all.rows.sort_by_key(|row| caladan::place(row.claim.id));
    all.rows.extend(real::run(quick, real)?);
    Ok(all)
}

/// A value for the claim of this name.
fn row(name: &str, value: f64, note: impl Into<String>) -> Result<Row> {
    Ok(Row::measured(claim(name)?, value, note))
}

fn claim(name: &str) -> Result<&'static Claim> {
    caladan::claim(name).with_context(|| format!("nobody claims '{name}'"))
}

/// Microseconds for people.
fn micros(micros: f64) -> String {
    human::nanoseconds((micros * 1e3) as u64)
}
