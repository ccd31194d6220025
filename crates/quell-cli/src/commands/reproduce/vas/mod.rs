//! `quell reproduce vas`: VAS's evaluation, its analysis worked out and its machine simulated.

mod analysis;
mod cases;
mod services;
mod synthetic;

use anyhow::{Context, Result};
use quell_evidence::{Claim, Row, vas};
use quell_model::Nanos;
use quell_model::demand::Task;
use quell_policy::vas::{Analysis, Busy, Interface, Margin, Releases, TaskSet};
use quell_report::stats::wasserstein;
use quell_sim::experiment::vas::{Scene, Seen};

/// Two-sided 95 % of Student's distribution, by degrees of freedom.
const STUDENT: [f64; 5] = [f64::NAN, 12.71, 4.303, 3.182, 2.776];

/// How much to run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    quick: bool,
}

impl Effort {
    /// Runs of each scene: the server's phase and the neighbour differ.
    fn seeds(self) -> std::ops::RangeInclusive<u64> {
        if self.quick { 1..=1 } else { 1..=5 }
    }

    /// The paper looks for 100 s; where many jobs come a second less will do.
    fn span(self, full: u64, quick: u64) -> Nanos {
        Nanos::from_secs(if self.quick { quick } else { full })
    }
}

/// Runs everything.
pub fn run(quick: bool) -> Result<Vec<Row>> {
    let effort = Effort { quick };
    let mut rows = analysis::rows()?;
    rows.extend(synthetic::rows(effort)?);
    rows.extend(cases::rows(effort)?);
    rows.extend(services::rows(effort)?);
    let place = |row: &Row| vas::TOPIC.claims.iter().position(|claim| claim.id == row.claim.id);
    rows.sort_by_key(place);
    Ok(rows)
}

fn claim(name: &str) -> Result<&'static Claim> {
    let id = format!("vas.{name}");
    let claim: Option<&&'static Claim> = vas::TOPIC.claims.iter().find(|claim| claim.id == id);
    Ok(claim.with_context(|| format!("nobody claims '{id}'"))?)
}

/// A value without chance.
fn row(name: &str, value: f64, note: impl Into<String>) -> Result<Row> {
    Ok(Row::measured(claim(name)?, value, note))
}

/// The mean over the seeds, with its 95 % interval where there are several.
fn mean_row(name: &str, values: &[f64], note: &str) -> Result<Row> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let half = STUDENT.get(values.len() - 1).copied().unwrap_or(1.96) * (variance / count).sqrt();
    let each: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
    let note = |own: String| if note.is_empty() { own } else { format!("{own}; {note}") };
    if values.len() == 1 {
        return Ok(Row::measured(claim(name)?, mean, note("one seed".into())));
    }
    Ok(Row::estimated(claim(name)?, mean, half, note(format!("± {half:.3} of {}", each.join(", ")))))
}

/// The largest over the seeds, for a sentence that says that something is small.
fn worst_row(name: &str, values: &[f64], note: &str) -> Result<Row> {
    let worst = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let each: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
    let seeds = if values.len() == 1 { "one seed".into() } else { format!("the largest of {}", each.join(", ")) };
    let note = if note.is_empty() { seeds } else { format!("{seeds}; {note}") };
    row(name, worst, note)
}

/// The interface that the analysis recommends for periodic tasks with this margin.
fn recommended(tasks: &[Task], points: f64) -> Result<Interface> {
    let set = TaskSet::new(tasks.to_vec(), Releases::Periodic)?;
    let margin = Margin::points(points).context("a margin is from 0 to 100 points")?;
    Ok(Analysis::least(&Busy::of(&set), margin).recommended)
}

/// What varies from seed to seed: the server's phase and how many threads the neighbour has.
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
