//! `quell-lab paper trials`: what verifying isolations is good for.

mod aggressor;
mod mixes;

use anyhow::{Context, Result};
use quell_evidence::{Measure, topic};

use super::trial::{self, Figure, Kept, Part};

/// Runs everything, or these figures alone.
pub fn run(quick: bool, only: &[String], kept: &Kept) -> Result<Figure> {
    let parts: &[Part] =
        &[("trials-mixes", &["mixes"], mixes::measures), ("trials-aggressor", &["aggressor"], aggressor::measures)];
    kept.parts(parts, quick, only)
}

/// A value for the claim of this name.
fn measure(name: &str, value: f64, note: impl Into<String>) -> Result<Measure> {
    trial::measure(topic("trials").context("there are no claims about trials")?, name, value, note)
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.max(1e-9).ln()).sum::<f64>() / values.len().max(1) as f64).exp()
}

/// A part of a whole; nothing of nothing is nothing.
fn part(of: usize, all: usize) -> f64 {
    of as f64 / all.max(1) as f64
}
