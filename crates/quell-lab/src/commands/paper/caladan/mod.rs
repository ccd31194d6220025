//! `quell-lab paper caladan`: Caladan's evaluation, simulated; and with `--real` what Quell's scheduler promises.

mod colocation;
mod constant;
mod many;
mod pairs;
mod parts;
mod phases;
mod pool;
mod real;
mod scale;
mod sensitivity;
mod unmodified;

use std::time::Instant;

pub use real::ALL as ALL_SCENES;

use anyhow::{Context, Result, bail};
use quell_evidence::{Found, Measure, Topic, topic};
use quell_report::human;
use rayon::prelude::*;

use super::trial::{self, Figure, Kept, Trial};

type Run = fn(Trial) -> Result<Figure>;

/// In the order of the page, by the prefix of their rows' names.
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

/// Runs these figures, or all if none is named; of those that need a real kernel these scenes.
pub fn run(quick: bool, only: &[String], real: &[String], kept: &Kept) -> Result<Figure> {
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
            kept.trials(&format!("caladan-{name}"), quick, |trial| {
                let began = Instant::now();
                let figure = run(trial)?;
                eprintln!("{name}, seed {}: {:.1} s", trial.seed, began.elapsed().as_secs_f64());
                Ok(figure)
            })
        })
        .collect();
    let mut all = Figure::default();
    for figure in figures? {
        all.measures.extend(figure.measures);
        all.blocks.extend(figure.blocks);
    }
    all.measures.extend(factor(&all.measures)?);
    if only.is_empty() || !real.is_empty() {
        all.measures.extend(real::run(quick, real)?);
    }
    Ok(all)
}

/// Ratio of Parties*' convergence time to Caladan's (Table 1), where both were measured.
fn factor(measures: &[Measure]) -> Result<Option<Measure>> {
    let of = |id: &str| match &measures.iter().find(|measure| measure.id == id)?.found {
        Found::Seeds(values) => Some(values.clone()),
        _ => None,
    };
    let (ours, theirs) = (of("caladan.table1.convergence"), of("caladan.table1.parties-convergence"));
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return Ok(None) };
    let factors = Found::Seeds(ours.iter().zip(&theirs).map(|(micros, seconds)| 1e6 * seconds / micros).collect());
    found("table1.factor", factors, "").map(Some)
}

fn claims() -> Result<&'static Topic> {
    topic("caladan").context("there are no claims of this paper")
}

/// A value for the claim of this name.
fn measure(name: &str, value: f64, note: impl Into<String>) -> Result<Measure> {
    trial::measure(claims()?, name, value, note)
}

/// No value for the claim of this name, and the missing part.
fn missing(name: &str, what: &str) -> Result<Measure> {
    found(name, Found::Missing(what.to_owned()), "")
}

fn found(name: &str, found: Found, note: impl Into<String>) -> Result<Measure> {
    trial::found(claims()?, name, found, note)
}

/// Microseconds for people.
fn micros(micros: f64) -> String {
    human::nanoseconds((micros * 1e3) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_evidence::Claim;

    #[test]
    fn every_claim_belongs_to_a_figure_and_unknown_figures_are_refused() {
        let is_run = |claim: &&Claim| claim.missing.is_none() && !claim.id.starts_with("caladan.real.");
        for claim in claims().unwrap().claims.iter().filter(is_run) {
            let name = &claim.id["caladan.".len()..];
            assert!(FIGURES.iter().any(|(figure, _)| name.starts_with(figure)), "{name}");
        }
        let error =
            run(true, &["fig2".into()], &[], &Kept::default()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("fig2") && error.contains("fig10"), "{error}");
    }
}
