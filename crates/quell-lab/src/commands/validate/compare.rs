//! How near the two sides are.

use quell_evidence::{Cell, Found, Interval, Switching, Value};
use serde::Serialize;

/// What a cell has of a measure.
type Of = fn(&Cell) -> Option<f64>;

/// What is compared, and how near it must be, as a share. What has no bound is shown: it shows where the two sides differ.
const MEASURES: [(Of, &str, f64); 9] = [
    (|cell| cell.value(Value::Cpus), "CPUs", 0.02),
    (|cell| cell.value(Value::P50), "p50", 0.05),
    (|cell| cell.value(Value::P99), "p99", 0.10),
    (|cell| cell.value(Value::P999), "p99.9", f64::INFINITY),
    (|cell| cell.value(Value::Waiting), "waiting", f64::INFINITY),
    (|cell| of(cell, |counts| counts.sleeps + counts.preemptions), "switches", f64::INFINITY),
    (|cell| of(cell, |counts| counts.sleeps), "wake-ups", f64::INFINITY),
    (|cell| of(cell, |counts| counts.preemptions), "preemptions", f64::INFINITY),
    (|cell| of(cell, |counts| counts.migrations), "migrations", f64::INFINITY),
];

fn of(cell: &Cell, count: fn(&Switching) -> f64) -> Option<f64> {
    cell.switching.as_ref().map(count)
}

/// One measure of one workload under one treatment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub scene: String,
    pub treatment: String,
    pub workload: String,
    pub measure: &'static str,
    /// The means, and the 95 % intervals over the seeds.
    pub simulated: f64,
    pub simulated_interval: Option<(f64, f64)>,
    pub real: f64,
    pub real_interval: Option<(f64, f64)>,
    /// Of the real value; None where that is 0.
    pub error: Option<f64>,
    pub near: Near,
}

/// Is a row within its bound?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Near {
    /// Within the bound.
    Yes,
    /// The real kernel's own interval is wider than the bound, and has the simulator's value.
    WithinSpread,
    /// Neither.
    No,
    /// It has no bound.
    NotJudged,
}

impl Row {
    /// Is it within its bound, if it has one?
    pub fn is_near(&self) -> bool {
        self.near != Near::No
    }
}

/// The rows of a scene, from each seed's cells on both sides.
pub fn rows(scene: &str, simulated: &[Vec<Cell>], real: &[Vec<Cell>]) -> Vec<Row> {
    let Some(first) = real.first() else { return Vec::new() };
    let row = |cell: &Cell, (value, measure, bound): (Of, &'static str, f64)| {
        let of = |runs: &[Vec<Cell>]| {
            let is = |other: &&Cell| (&other.policy, &other.workload) == (&cell.policy, &cell.workload);
            let values = runs.iter().filter_map(|cells| cells.iter().find(is).and_then(value)).collect();
            let found = Found::Seeds(values);
            Some((found.value()?, found.interval()))
        };
        let (simulated, real) = (of(simulated)?, of(real)?);
        let ends = |interval: Option<Interval>| interval.map(|interval| (interval.low, interval.high));
        Some(Row {
            scene: scene.to_owned(),
            treatment: cell.policy.clone(),
            workload: cell.workload.clone(),
            measure,
            simulated: simulated.0,
            simulated_interval: ends(simulated.1),
            real: real.0,
            real_interval: ends(real.1),
            error: (real.0 != 0.0).then(|| (simulated.0 - real.0) / real.0),
            near: near(simulated.0, real.0, real.1, bound),
        })
    };
    first.iter().flat_map(|cell| MEASURES.into_iter().filter_map(move |measure| row(cell, measure))).collect()
}

fn near(simulated: f64, real: f64, spread: Option<Interval>, bound: f64) -> Near {
    let off = (simulated - real).abs();
    match spread {
        _ if bound.is_infinite() => Near::NotJudged,
        _ if off <= bound * real.abs() => Near::Yes,
        Some(spread) if spread.high - spread.low > bound * real.abs() && spread.contains(simulated) => {
            Near::WithinSpread
        }
        _ => Near::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_near_within_the_bound_or_within_what_the_real_kernel_itself_varies() {
        let spread = |low, high| Some(Interval { low, high });
        for (simulated, spread, expected) in [
            (104.9, spread(99.0, 101.0), Near::Yes),
            (105.1, spread(99.0, 101.0), Near::No),
            (115.0, spread(80.0, 120.0), Near::WithinSpread),
            (125.0, spread(80.0, 120.0), Near::No),
            (105.1, None, Near::No),
        ] {
            assert_eq!(near(simulated, 100.0, spread, 0.05), expected, "{simulated}");
        }
        assert_eq!(near(1.0, 100.0, None, f64::INFINITY), Near::NotJudged);
    }

    #[test]
    fn rows_are_of_what_both_sides_have() {
        let cell = |cpus: f64, p50: Option<f64>| Cell {
            policy: "none".into(),
            workload: "w".into(),
            p50,
            cpus,
            waiting: 0.5,
            ..Cell::default()
        };
        let both = |one: f64, other: f64| [vec![cell(one, Some(one))], vec![cell(other, None)]];
        let rows = rows("s", &both(1.01, 1.01), &both(1.0, 1.0));
        let found: Vec<_> = rows.iter().map(|row| (row.measure, row.near)).collect();
        assert_eq!(found, [("CPUs", Near::Yes), ("p50", Near::Yes), ("waiting", Near::NotJudged)]);
    }
}
