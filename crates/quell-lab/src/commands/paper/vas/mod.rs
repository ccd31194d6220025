//! `quell-lab paper vas`: VAS's evaluation, its analysis worked out and its machine simulated.

mod analysis;
mod cases;
mod services;
mod synthetic;

use anyhow::{Context, Result};
use quell_evidence::{Found, Measure, topic};
use quell_model::Nanos;
use quell_model::demand::Task;
use quell_policy::vas::{Analysis, Busy, Interface, Margin, Releases, TaskSet};
use quell_report::stats::wasserstein;
use quell_sim::experiment::vas::{Scene, Seen};

use super::trial::{self, Figure, Kept, Trial};

/// Amount of work.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    quick: bool,
}

impl Effort {
    /// Runs of each scene: the server's phase and the neighbour differ.
    fn seeds(self) -> std::ops::RangeInclusive<u64> {
        if self.quick { 1..=1 } else { 1..=5 }
    }

    /// The paper measures for 100 s; with many jobs a second less will do.
    fn span(self, full: u64, quick: u64) -> Nanos {
        Nanos::from_secs(if self.quick { quick } else { full })
    }
}

/// Runs everything. The seeds of a scene run beside each other, so that all of it is one part.
pub fn run(quick: bool, kept: &Kept) -> Result<Figure> {
    kept.part("vas", Trial { quick, seed: 1 }, || {
        let effort = Effort { quick };
        let mut measures = analysis::measures()?;
        measures.extend(synthetic::measures(effort)?);
        measures.extend(cases::measures(effort)?);
        measures.extend(services::measures(effort)?);
        Ok(Figure { measures, ..Figure::default() })
    })
}

fn found(name: &str, found: Found, note: String) -> Result<Measure> {
    trial::found(topic("vas").context("there are no claims of this paper")?, name, found, note)
}

/// A value without chance.
fn exact(name: &str, value: f64, note: impl Into<String>) -> Result<Measure> {
    found(name, Found::Exact(value), note.into())
}

/// A value of each seed.
fn sampled(name: &str, values: &[f64], note: &str) -> Result<Measure> {
    let each: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
    let seeds = format!("by seed {}", each.join(", "));
    let note = if note.is_empty() { seeds } else { format!("{seeds}; {note}") };
    found(name, Found::Seeds(values.to_vec()), note)
}

/// The interface that the analysis recommends for periodic tasks with this margin.
fn recommended(tasks: &[Task], points: f64) -> Result<Interface> {
    let set = TaskSet::new(tasks.to_vec(), Releases::Periodic)?;
    let margin = Margin::points(points).context("a margin is from 0 to 100 points")?;
    Ok(Analysis::least(&Busy::of(&set), margin).recommended)
}

/// The variation from seed to seed: the server's phase and the number of the neighbour's threads.
fn varied(scene: &Scene, seed: u64) -> Scene {
    let (_, period) = scene.interface;
    let phase = period.scaled((seed as f64 * 0.618_034).fract());
    Scene { phase, neighbours: 1 + (seed % 3) as u32, seed, ..scene.clone() }
}

/// A scene and the same on whole CPUs.
fn both(scene: &Scene) -> Result<(Seen, Seen)> {
    Ok((scene.run()?, scene.whole().run()?))
}

/// The distance of response times, ns.
fn distance(one: &Seen, other: &Seen) -> f64 {
    wasserstein(&mut one.latencies(), &mut other.latencies())
}

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len().max(1) as f64
}
