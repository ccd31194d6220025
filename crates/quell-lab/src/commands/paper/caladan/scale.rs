//! The scale beyond the paper: 128 CPUs, 20 latency-critical and 20 best-effort tasks, bursts.

use anyhow::Result;
use quell_model::Nanos;
use quell_policy::AnyPolicy;
use quell_policy::caladan::{Caladan, CaladanConfig};
use quell_report::chart::{Axis, Chart, Form, Mark, Scale, Unit};
use quell_report::page::Block;
use quell_sim::experiment::caladan::{Seen, Span, TASKS, run_scale, scale};
use rayon::prelude::*;

use super::{Figure, Trial, measure, micros};

/// A decision, at least and at most: `cargo bench -p quell-policy --bench step -- caladan` has 0.7 µs with 24 CPUs and 20
/// tasks, with 128 CPUs 1.4 µs (20 tasks) to 5.9 µs (100).
const SMALL: Nanos = Nanos::from_micros(1);
const LARGE: Nanos = Nanos::from_micros(6);

/// The change.
#[derive(Clone, Copy, PartialEq)]
struct Variant {
    name: &'static str,
    many_a_round: bool,
    rules: bool,
    decision: Nanos,
}

const PAPER: Variant =
    Variant { name: "as in the paper, 6 µs a decision", many_a_round: false, rules: false, decision: LARGE };
const VARIANTS: [Variant; 4] = [
    PAPER,
    Variant { name: "1 µs a decision", decision: SMALL, ..PAPER },
    Variant { name: "as many cores a round as the delay has thresholds", many_a_round: true, ..PAPER },
    Variant { name: "rules at the event", rules: true, ..PAPER },
];

impl Variant {
    fn policy(self) -> AnyPolicy {
        let Variant { many_a_round, rules, .. } = self;
        AnyPolicy::Caladan(Caladan::new(CaladanConfig { many_a_round, rules, ..CaladanConfig::default() }))
    }

    fn run(self, load: f64, tasks: (u32, u32), span: Span) -> Result<Seen> {
        Ok(run_scale(&scale(load, tasks.0, tasks.1), &mut self.policy(), self.decision, span)?)
    }
}

/// The worst of the tasks' tails, µs.
fn worst(seen: &Seen, tasks: u32) -> f64 {
    (0..tasks as usize).map(|task| seen.p999(task)).max().unwrap_or_default().0 as f64 / 1e3
}

/// The highest load up to which the tail is no more than twice that alone.
fn kept(loads: &[f64], ratios: &[f64]) -> Option<f64> {
    let within = loads.iter().zip(ratios).take_while(|(_, ratio)| **ratio <= 2.0);
    within.last().map(|(load, _)| *load)
}

pub fn study(trial: Trial) -> Result<Figure> {
    // The rows are of the highest load; the others are drawn, and in the first run's notes.
    let loads: &[f64] = match trial {
        Trial { quick: true, .. } => &[0.1, 0.3],
        trial if trial.is_first() => &[0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
        _ => &[0.6],
    };
    let span = Span {
        seed: trial.seed,
        warm_up: Nanos::from_millis(10),
        measured: Nanos::from_millis(if trial.quick { 60 } else { 300 }),
    };
    // Solo: one task alone on the machine.
    let solo: Vec<f64> = loads
        .par_iter()
        .map(|&load| Ok(worst(&PAPER.run(load, (1, 0), Span { measured: Nanos(span.measured.0 * 4), ..span })?, 1)))
        .collect::<Result<_>>()?;
    let runs: Vec<(Variant, usize)> =
        VARIANTS.into_iter().flat_map(|variant| (0..loads.len()).map(move |load| (variant, load))).collect();
    let seen: Vec<Seen> = runs
        .par_iter()
        .with_max_len(1)
        .map(|&(variant, load)| variant.run(loads[load], (TASKS, TASKS), span))
        .collect::<Result<_>>()?;
    let of = |which: usize| &seen[which * loads.len()..(which + 1) * loads.len()];
    let ratios = |which: usize| -> Vec<f64> {
        of(which).iter().zip(&solo).map(|(seen, solo)| worst(seen, TASKS) / solo).collect()
    };
    let note = |which: usize| {
        let points = loads.iter().zip(of(which)).zip(ratios(which)).map(|((load, seen), ratio)| {
            format!(
                "{:.0} %: {} ({ratio:.2}×, {:.0} k reallocations/s)",
                100.0 * load,
                micros(worst(seen, TASKS)),
                seen.reallocations / 1e3
            )
        });
        let points = points.collect::<Vec<_>>().join(", ");
        match kept(loads, &ratios(which)) {
            Some(load) => format!("{}: within 2× up to {:.0} % load; {points}", VARIANTS[which].name, 100.0 * load),
            None => format!("{}: not within 2× at any load; {points}", VARIANTS[which].name),
        }
    };
    let last = loads.len() - 1;
    let at = |which: usize| ratios(which)[last];
    let measures = vec![
        measure("scale.paper", at(0), note(0))?,
        measure("scale.decision", at(1), note(1))?,
        measure("scale.many", at(2), note(2))?,
        measure("scale.rules", at(3), note(3))?,
    ];
    let chart = Chart::new(
        "128 CPUs: the worst p99.9 of 20 tasks, over that of one alone",
        Axis::new("load of the guaranteed CPUs", Scale::Linear, Unit::Share),
        Axis::new("ratio", Scale::Log, Unit::Plain),
    )
    .mark(Mark::AtY { y: 2.0, label: "twice that alone".into() });
    let ends = kept(loads, &ratios(0)).map(|x| Mark::AtX { x, label: "as in the paper: kept up to here".into() });
    let chart = ends.into_iter().fold(chart, Chart::mark);
    let chart = VARIANTS.iter().enumerate().fold(chart, |chart, (which, variant)| {
        let points = loads.iter().zip(ratios(which)).map(|(load, ratio)| (*load, ratio));
        chart.with(variant.name, Form::Line, points.collect())
    });
    Ok(Figure { measures, blocks: vec![Block::Chart(chart)] })
}
