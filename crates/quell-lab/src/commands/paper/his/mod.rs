//! `quell-lab paper his`: the isolation techniques and HIS's evaluation, simulated.

mod heracles;
mod techniques;

use anyhow::{Context, Result};
use quell_evidence::{Measure, topic};
use quell_model::Nanos;
use quell_policy::AnyPolicy;
use quell_sim::experiment::his::Span;

use super::trial::{self, Figure, Kept, Part, Trial};

/// Runs everything, or these figures alone.
pub fn run(quick: bool, only: &[String], kept: &Kept) -> Result<Figure> {
    let parts: &[Part] = &[
        ("his-techniques", &["tab2.1", "fig3.1", "fig3.2", "fig3.3", "fig3.4"], techniques::measures),
        ("his-batch", &["fig3.7", "fig3.8"], techniques::foregrounds),
        ("his-profiles", &["fig3.9", "fig3.10"], heracles::profiles),
        ("his-heracles", &["fig3.11", "fig3.12", "fig3.13"], heracles::measures),
    ];
    kept.parts(parts, quick, only)
}

/// A value for the claim of this name.
fn measure(name: &str, value: f64, note: impl Into<String>) -> Result<Measure> {
    trial::measure(topic("his").context("there are no claims of this paper")?, name, value, note)
}

/// A policy by name and parameters as TOML; HIS without trials, which the text does not have.
fn policy(name: &str, parameters: &str) -> Result<AnyPolicy> {
    let mut table: toml::Table = toml::from_str(parameters)?;
    if name == "his" {
        table.insert("verify".to_owned(), false.into());
    }
    Ok(AnyPolicy::build(name, table)?)
}

/// As long as this, a tenth of it in a quick run.
fn span(trial: Trial, warm_up: u64, measured: u64) -> Span {
    let length = |seconds: u64| Nanos::from_millis(if trial.quick { seconds * 150 } else { seconds * 1000 });
    Span { seed: trial.seed, warm_up: length(warm_up), measured: length(measured) }
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.max(1e-9).ln()).sum::<f64>() / values.len().max(1) as f64).exp()
}
