//! `quell reproduce caladan`: Caladan's evaluation, simulated; and with `--real` what Quell's kernel half promises.

mod colocation;
mod constant;
mod many;
mod pairs;
mod parts;
mod phases;
mod real;
mod scale;
mod sensitivity;
mod unmodified;

use std::time::Instant;

pub use real::ALL as ALL_SCENES;

use anyhow::{Context, Result, bail};
use quell_evidence::{Claim, Row, caladan};
use quell_report::human;
use quell_report::page::Block;
use rayon::prelude::*;

/// Rows, and pictures for the page.
pub struct Figure {
    pub rows: Vec<Row>,
    pub blocks: Vec<Block>,
}

type Run = fn(bool) -> Result<Figure>;

/// In the order of the page, by what their rows' names begin with.
const FIGURES: &[(&str, Run)] = &[
    ("table1", phases::table1),
    ("fig1", phases::figure1),
    ("fig4", constant::figure4),
    ("fig5", phases::figure5),
    ("fig6", pairs::figure6),
    ("fig7", many::figure7),
    ("fig8b", many::figure8b),
    ("fig8c", parts::figure8c),
    ("fig9", parts::figure9),
    ("fig10", sensitivity::figure10),
    ("unmodified", unmodified::unmodified),
    ("scale", scale::study),
];

/// Runs these figures, or all if none is named; of what needs a real kernel these scenes.
pub fn run(quick: bool, only: &[String], real: &[String]) -> Result<Figure> {
    if let Some(unknown) = only.iter().find(|name| FIGURES.iter().all(|(known, _)| known != name)) {
        let known: Vec<_> = FIGURES.iter().map(|(name, _)| *name).collect();
        bail!("--only={unknown}: there is no such figure; there are {}", known.join(", "));
    }
    real::check(real)?;
    let chosen: Vec<_> =
        FIGURES.iter().filter(|(name, _)| only.is_empty() || only.iter().any(|it| it == name)).collect();
    let figures: Result<Vec<Figure>> = chosen
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
    if only.is_empty() || !real.is_empty() {
        all.rows.extend(real::run(quick, real)?);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_belongs_to_a_figure_and_unknown_figures_are_refused() {
        for claim in caladan::TOPIC.claims.iter().filter(|claim| !claim.id.starts_with("caladan.real.")) {
            let name = &claim.id["caladan.".len()..];
            assert!(FIGURES.iter().any(|(figure, _)| name.starts_with(figure)), "{name}");
        }
        let error = run(true, &["fig2".into()], &[]).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("fig2") && error.contains("fig10"), "{error}");
    }
}
