//! `quell-lab paper queueing`: simulated queues against theory.

use anyhow::{Context, Result};
use quell_evidence::{Found, Interval, Measure, topic};
use quell_report::human;
use quell_sim::experiment::queueing::{BATCHES, Estimate, PARTS, Part, Queue, count, mean, p99};
use rayon::prelude::*;

use super::progress_bar;
use super::trial::{self, Figure, Kept, Trial};

/// The queues by the names that the claims have.
const QUEUES: [(&str, Queue); 5] = [
    ("m-m-1", Queue::MMk(1)),
    ("m-m-4", Queue::MMk(4)),
    ("m-d-1", Queue::MD1),
    ("m-g-1", Queue::MG1),
    ("sharing", Queue::ProcessorSharing),
];

const LOADS: [(&str, f64); 4] = [("0.3", 0.3), ("0.7", 0.7), ("0.9", 0.9), ("0.95", 0.95)];

/// The highest load of a quick run.
const QUICK: f64 = 0.9;

/// A queue at a load, with the names that the claims have for both.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    queue: Queue,
    load_name: &'static str,
    load: f64,
}

impl Case {
    fn all() -> impl Iterator<Item = Case> {
        let at_loads = |(name, queue)| LOADS.map(|(load_name, load)| Case { name, queue, load_name, load });
        QUEUES.into_iter().flat_map(at_loads)
    }

    /// The name of its claim about this.
    fn name(&self, what: &str) -> String {
        format!("{}.{}.{what}", self.name, self.load_name)
    }

    /// Requests to simulate: the higher the load, the longer latencies depend on each other, and an interval of the
    /// same relative width takes about 1 / (1 − load)² as many.
    fn requests(&self, quick: bool) -> u64 {
        let (factor, least) = match (self.queue, quick) {
            (Queue::ProcessorSharing, false) => (20_000.0, 1_000_000.0),
            (Queue::ProcessorSharing, true) => (10_000.0, 200_000.0),
            (_, false) => (100_000.0, 4_000_000.0),
            (_, true) => (50_000.0, 1_000_000.0),
        };
        f64::max(factor / (1.0 - self.load).powi(2), least) as u64
    }

    /// Rough cost of the simulation: a shared processor switches dozens of times a request.
    fn cost(&self, quick: bool) -> u64 {
        self.requests(quick) * if self.queue == Queue::ProcessorSharing { 25 } else { 1 }
    }
}

/// Runs all queues, up to a load of 0.9 if it has to be quick. Each is simulated in parts with other random numbers, whose
/// batches make the interval.
pub fn run(quick: bool, kept: &Kept) -> Result<Figure> {
    kept.part("queueing", Trial { quick, seed: 1 }, || Ok(Figure { measures: measures(quick)?, ..Figure::default() }))
}

fn measures(quick: bool) -> Result<Vec<Measure>> {
    let is_run = |case: &Case| !quick || case.load <= QUICK;
    let mut jobs: Vec<(Case, u32)> =
        Case::all().filter(is_run).flat_map(|case| (0..PARTS).map(move |part| (case, part))).collect();
    // The longest first, so that none is left alone at the end.
    jobs.sort_by_key(|(case, _)| std::cmp::Reverse(case.cost(quick)));
    let bar = progress_bar(jobs.iter().map(|(case, _)| case.cost(quick)).sum());
    let simulated: Result<Vec<(Case, Part)>> = jobs
        .par_iter()
        .with_max_len(1)
        .map(|&(case, part)| {
            let seen = case.queue.run(case.load, part, case.requests(quick))?;
            bar.inc(case.cost(quick));
            Ok((case, seen))
        })
        .collect();
    bar.finish_and_clear();
    let simulated = simulated?;
    let claims = topic("queueing").context("there are no claims of theory")?;
    let mut measures = Vec::new();
    for case in Case::all() {
        let is_its = |of: &Case| (of.name, of.load_name) == (case.name, case.load_name);
        let parts: Vec<Part> = simulated.iter().filter(|(of, _)| is_its(of)).map(|(_, part)| part.clone()).collect();
        let mut measure = |what: &str, estimate: fn(&[Part]) -> Estimate| -> Result<()> {
            let (found, note) = if is_run(&case) {
                estimated(estimate(&parts), count(&parts))
            } else {
                (Found::Missing("run it without --quick".to_owned()), String::new())
            };
            measures.push(trial::found(claims, &case.name(what), found, note)?);
            Ok(())
        };
        measure("mean", mean)?;
        if case.queue.p99(case.load).is_some() {
            measure("p99", p99)?;
        }
    }
    Ok(measures)
}

fn estimated(estimate: Estimate, requests: u64) -> (Found, String) {
    let Estimate { value, half_width } = estimate;
    let note = format!(
        "± {}: {} batches of {} requests",
        human::percent(half_width / value),
        PARTS * BATCHES,
        requests / u64::from(PARTS * BATCHES),
    );
    (Found::Estimate(value, Interval { low: value - half_width, high: value + half_width }), note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_evidence::Expected;

    #[test]
    fn the_claims_are_what_theory_says() {
        let claims = topic("queueing").unwrap();
        let mut seen = 0;
        for case in Case::all() {
            let by_theory = [("mean", Some(case.queue.mean(case.load))), ("p99", case.queue.p99(case.load))];
            for (what, value) in by_theory {
                let Some(value) = value else { continue };
                let claim = claims.claim(&case.name(what)).unwrap();
                let Expected::Number { value: claimed, .. } = claim.expected else { panic!("{claim:?}") };
                assert!((claimed / value - 1.0).abs() < 1e-6, "{}: {claimed}, theory says {value}", claim.id);
                seen += 1;
            }
        }
        assert_eq!(seen, claims.claims.len());
    }
}
