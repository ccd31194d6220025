//! `quell reproduce queueing`: simulated queues against theory.

use anyhow::{Context, Result};
use quell_evidence::{Claim, Row, queueing};
use quell_report::human;
use quell_sim::experiment::queueing::{BATCHES, Estimate, PARTS, Part, Queue, count, mean, p99};
use rayon::prelude::*;

use super::progress_bar;

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

    fn claim(&self, what: &str) -> Result<&'static Claim> {
        let id = format!("queueing.{}.{}.{what}", self.name, self.load_name);
        let known = queueing::TOPIC.claims.iter().find(|claim| claim.id == id);
        known.copied().with_context(|| format!("nobody claims '{id}'"))
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

    /// What the simulation takes, roughly: a shared processor switches dozens of times a request.
    fn cost(&self, quick: bool) -> u64 {
        self.requests(quick) * if self.queue == Queue::ProcessorSharing { 25 } else { 1 }
    }
}

/// Runs all queues, up to a load of 0.9 if it has to be quick.
pub fn run(quick: bool) -> Result<Vec<Row>> {
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
    let mut rows = Vec::new();
    for case in Case::all() {
        let is_its = |of: &Case| (of.name, of.load_name) == (case.name, case.load_name);
        let parts: Vec<Part> = simulated.iter().filter(|(of, _)| is_its(of)).map(|(_, part)| part.clone()).collect();
        let mut judge = |claim: &'static Claim, estimate: fn(&[Part]) -> Estimate| {
            rows.push(if is_run(&case) {
                judged(claim, estimate(&parts), count(&parts))
            } else {
                Row::not_run(claim, "run it without --quick")
            });
        };
        judge(case.claim("mean")?, mean);
        if case.queue.p99(case.load).is_some() {
            judge(case.claim("p99")?, p99);
        }
    }
    Ok(rows)
}

fn judged(claim: &'static Claim, estimate: Estimate, requests: u64) -> Row {
    let Estimate { value, half_width } = estimate;
    let note = format!(
        "99 % interval {:.3} to {:.3}, ± {}: {} batches of {} requests",
        value - half_width,
        value + half_width,
        human::percent(half_width / value),
        PARTS * BATCHES,
        requests / u64::from(PARTS * BATCHES),
    );
    Row::estimated(claim, value, half_width, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claims_are_what_theory_says() {
        let mut seen = 0;
        for case in Case::all() {
            let by_theory = [("mean", Some(case.queue.mean(case.load))), ("p99", case.queue.p99(case.load))];
            for (what, value) in by_theory {
                let Some(value) = value else { continue };
                let claim = case.claim(what).unwrap();
                let claimed = claim.expected.value();
                assert!((claimed / value - 1.0).abs() < 1e-6, "{}: {claimed}, theory says {value}", claim.id);
                seen += 1;
            }
        }
        assert_eq!(seen, queueing::TOPIC.claims.len());
    }
}
