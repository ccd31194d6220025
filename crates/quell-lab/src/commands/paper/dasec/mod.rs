//! `quell-lab paper dasec`: services of 16 threads on 80 CPUs, with Linux's CFS, dasec, parties and BVT, simulated.

mod containers;
mod homogeneous;
mod mixed;

use anyhow::{Context, Result};
use quell_evidence::{Measure, topic};
use quell_model::Nanos;
use quell_policy::AnyPolicy;
use quell_sim::experiment::dasec::{self, Scene, Scheduler, Seen};
use quell_sim::experiment::his::Span;

use super::trial::{self, Figure, Kept, Part, Trial};

/// Runs everything, or these figures alone.
pub fn run(quick: bool, only: &[String], kept: &Kept) -> Result<Figure> {
    let parts: &[Part] = &[
        (
            "dasec-homogeneous",
            &[
                "conflict", "fig1", "fig2", "fig3", "fig4", "fig7", "fig8", "fig13", "tab1", "overhead", "intro",
                "grows",
            ],
            homogeneous::measures,
        ),
        ("dasec-containers", &["fig11", "fig12", "fig14"], containers::measures),
        ("dasec-heterogeneous", &["fig9", "fig10"], mixed::inference),
        ("dasec-background", &["fig16"], mixed::background),
    ];
    kept.parts(parts, quick, only)
}

/// A value for the claim of this name.
fn measure(name: &str, value: f64, note: impl Into<String>) -> Result<Measure> {
    trial::measure(topic("dasec").context("there are no claims of this paper")?, name, value, note)
}

/// Thirty periods of dasec, then 25 more that count; a third of each in a quick run.
fn span(trial: Trial) -> Span {
    let length = |millis: u64| Nanos::from_millis(if trial.quick { millis / 3 } else { millis });
    Span { seed: trial.seed, warm_up: length(2400), measured: length(2000) }
}

fn policy(name: &str, parameters: &str) -> Result<AnyPolicy> {
    let table: toml::Table = toml::from_str(parameters)?;
    Ok(AnyPolicy::build(name, table)?)
}

fn linux(scene: &Scene, trial: Trial) -> Result<Seen> {
    Ok(dasec::run(scene, Scheduler::Cfs, &mut policy("none", "")?, span(trial))?)
}

fn with(parameters: &str, scene: &Scene, trial: Trial) -> Result<Seen> {
    Ok(dasec::run(scene, Scheduler::Cfs, &mut policy("dasec", parameters)?, span(trial))?)
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / f64::max(count, 1.0)
}
