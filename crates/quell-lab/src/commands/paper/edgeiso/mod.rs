//! `quell-lab paper edgeiso`: EdgeIso's evaluation on its device, simulated.

mod alternatives;
mod services;

use anyhow::{Context, Result};
use quell_evidence::{Measure, topic};
use quell_model::Nanos;
use quell_policy::AnyPolicy;
use quell_sim::experiment::edgeiso::{self, Scene, Seen};
use quell_sim::experiment::his::Span;

use super::trial::{self, Figure, Kept, Part, Trial};

/// Runs everything, or these figures alone.
pub fn run(quick: bool, only: &[String], kept: &Kept) -> Result<Figure> {
    let parts: &[Part] = &[
        ("edgeiso-data", &["fig4.1", "fig4.6"], services::pairs_of_data_processing),
        ("edgeiso-detection", &["fig4.7"], services::detections),
        ("edgeiso-tailbench", &["fig4.8"], services::tailbench),
        ("edgeiso-alternatives", &["fig4.9"], alternatives::one_of_each),
        ("edgeiso-threads", &["fig4.10", "fig4.11"], alternatives::threads),
        ("edgeiso-text", &["text"], services::example),
    ];
    kept.parts(parts, quick, only)
}

/// A value for the claim of this name.
fn measure(name: &str, value: f64, note: impl Into<String>) -> Result<Measure> {
    trial::measure(topic("edgeiso").context("there are no claims of this chapter")?, name, value, note)
}

/// No isolation, or whatever was set by hand.
fn without(scene: &Scene, span: Span) -> Result<Seen> {
    let mut none = AnyPolicy::named("none").context("a policy of the registry")?;
    Ok(edgeiso::run(scene, &mut none, span)?)
}

/// The policy as in the chapter, without trials; `gpu`: the foreground's name, if it runs on the GPU.
fn with(scene: &Scene, gpu: Option<&str>, trial: Trial, span: Span) -> Result<Seen> {
    let tasks = gpu.map_or(String::new(), |name| format!("tasks.\"{name}\".gpu = true\n"));
    // A shortened run has a shortened solo run.
    let solo = if trial.quick { "solo = \"600ms\"\n" } else { "" };
    let table: toml::Table = toml::from_str(&format!("verify = false\n{solo}{tasks}"))?;
    Ok(edgeiso::run(scene, &mut AnyPolicy::build("edgeiso", table)?, span)?)
}

/// As long as this, a tenth of it in a quick run.
fn span(trial: Trial, warm_up: u64, measured: u64) -> Span {
    let length = |seconds: u64| Nanos::from_millis(if trial.quick { seconds * 150 } else { seconds * 1000 });
    Span { seed: trial.seed, warm_up: length(warm_up), measured: length(measured) }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The part of requests that take longer than alone by more than this part.
fn violations(normalised: &[f64], threshold: f64) -> f64 {
    normalised.iter().filter(|times| **times > 1.0 + threshold).count() as f64 / normalised.len().max(1) as f64
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.max(1e-9).ln()).sum::<f64>() / values.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_a_few_values() {
        let values = [1.0, 1.05, 1.3, 2.0];
        assert_eq!([violations(&values, 0.1), violations(&values, 0.5)], [0.5, 0.25]);
        assert_eq!(median(&values), 1.3);
        assert!((mean(&values) - 1.3375).abs() < 1e-9 && (deviation(&[1.0, 3.0]) - 1.0).abs() < 1e-9);
        assert!((geometric_mean(&[0.5, 2.0]) - 1.0).abs() < 1e-9 && least(&values) == 1.0);
    }
}
