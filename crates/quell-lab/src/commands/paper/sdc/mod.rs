//! `quell-lab paper sdc`: SDC's metrics and local placement on a simulated host, its global placement on simulated clusters.

mod cluster;
mod host;

use anyhow::{Context, Result};
use quell_evidence::{Measure, topic};
use quell_model::Nanos;
use quell_policy::AnyPolicy;
use quell_sim::experiment::sdc::Span;

use super::trial::{self, Figure, Kept, Part, Trial};

/// Runs everything, or these figures alone.
pub fn run(quick: bool, only: &[String], kept: &Kept) -> Result<Figure> {
    let parts: &[Part] = &[
        ("sdc-metrics", &["fig5.2", "fig5.3"], host::metrics),
        ("sdc-interrupts", &["fig5.4"], host::interrupts),
        ("sdc-local", &["fig5.5", "threshold"], host::local),
        ("sdc-global", &["fig5.6"], host::global),
        ("sdc-dynamic", &["fig5.7", "fig5.8"], cluster::measures),
    ];
    kept.parts(parts, quick, only)
}

/// A value for the claim of this name.
fn measure(name: &str, value: f64, note: impl Into<String>) -> Result<Measure> {
    trial::measure(topic("sdc").context("there are no claims of this paper")?, name, value, note)
}

/// The local scheduler, which binds vCPUs; in a quick run every second.
fn local_scheduler(trial: Trial) -> Result<AnyPolicy> {
    let mut table = toml::Table::from_iter([("pins".to_owned(), "threads".into())]);
    if trial.quick {
        table.insert("interval".to_owned(), "1s".into());
    }
    Ok(AnyPolicy::build("sdc-local", table)?)
}

/// Beyond the second of its rounds, which is the first that has seen anything; in a quick run shorter.
fn span(trial: Trial) -> Span {
    let (warm_up, measured) = if trial.quick { (1_500, 500) } else { (16_000, 5_000) };
    Span { seed: trial.seed, warm_up: Nanos::from_millis(warm_up), measured: Nanos::from_millis(measured) }
}
