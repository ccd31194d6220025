//! Figure 10: the effect of Caladan's three parameters, beside the storage service.

use anyhow::Result;
use quell_model::Nanos;
use quell_report::chart::{Axis, Chart, Form, Mark, Scale, Unit};
use quell_report::page::Block;
use quell_sim::experiment::caladan::{Be, Lc, Seen};

use super::colocation::{CALADAN, Cell, System, TUNED, Tuning, most, run_all};
use super::parts::{LEAST, instructions, requests, tail, tails};
use super::{Figure, Trial, measure, micros};

/// Loads at which two values are compared, as parts of storage's highest rate alone: the text does not give the load of
/// the figure, so that a row is the mean over these.
const LOADS: [f64; 3] = [0.25, 0.5, 0.75];
/// The load of the curves, and of a quick run.
const DRAWN: f64 = 0.5;

/// A parameter.
#[derive(Clone)]
struct Parameter {
    title: &'static str,
    axis: Axis,
    /// Factor of a value on the axis.
    scale: f64,
    be: Be,
    tune: fn(f64) -> Tuning,
    /// Drawn.
    values: &'static [f64],
    /// Compared: the usual one, and another.
    pair: (f64, f64),
}

/// Results of one.
struct Swept {
    parameter: Parameter,
    drawn: Vec<Seen>,
    /// With the pair's values, by load.
    pairs: Vec<(f64, Seen, Seen)>,
}

impl Parameter {
    fn sweep(self, peak: f64, trial: Trial) -> Result<Swept> {
        let cell =
            |value: f64, load: f64| Cell::new(System::Caladan((self.tune)(value)), Lc::Storage, load * peak, self.be);
        let loads: &[f64] = if trial.quick { &[DRAWN] } else { &LOADS };
        let pair = |&load: &f64| [cell(self.pair.0, load), cell(self.pair.1, load)];
        let mut cells: Vec<Cell> = loads.iter().flat_map(pair).collect();
        if !trial.quick && trial.is_first() {
            cells.extend(self.values.iter().map(|&value| cell(value, DRAWN)));
        }
        let mut seen = run_all(trial.seed, &cells, 2.0 * requests(trial.quick), LEAST)?.into_iter();
        let mut next = || seen.next().expect("one of each cell");
        let pairs = loads.iter().map(|&load| (load, next(), next())).collect();
        Ok(Swept { drawn: seen.collect(), pairs, parameter: self })
    }
}

impl Swept {
    /// The mean over the loads of a comparison of two values.
    fn mean(&self, compare: impl Fn(&Seen, &Seen) -> f64) -> f64 {
        self.pairs.iter().map(|(_, usual, other)| compare(usual, other)).sum::<f64>() / self.pairs.len() as f64
    }

    fn note(&self, unit: &str) -> String {
        let (usual, other) = self.parameter.pair;
        let of = |seen: &Seen| format!("p99.9 {}, BE {:.2} G/s", micros(tail(seen)), seen.instructions(1) / 1e9);
        let pairs = self.pairs.iter().map(|(load, one, two)| {
            format!("at {:.0} % load {usual} {unit}: {}; {other} {unit}: {}", 100.0 * load, of(one), of(two))
        });
        pairs.collect::<Vec<_>>().join("; ")
    }

    /// The service's tail and best-effort work's throughput.
    fn charts(&self) -> [Chart; 2] {
        let Parameter { title, axis, scale, values, be, .. } = &self.parameter;
        let points = |y: &dyn Fn(&Seen) -> f64| -> Vec<(f64, f64)> {
            values.iter().zip(&self.drawn).map(|(value, seen)| (value * scale, y(seen))).collect()
        };
        let tails = Chart::new(format!("{title}, tail"), axis.clone(), tails()).with(
            "storage",
            Form::Line,
            points(&|seen| tail(seen) * 1e3),
        );
        let throughput = Chart::new(format!("{title}, throughput"), axis.clone(), instructions()).with(
            be.name(),
            Form::Line,
            points(&|seen| seen.instructions(1)),
        );
        [tails, throughput]
    }

    /// The results with the usual value.
    fn usual(&self) -> Option<&Seen> {
        let at = self.parameter.values.iter().position(|&value| value == self.parameter.pair.0)?;
        self.drawn.get(at)
    }
}

pub fn figure10(trial: Trial) -> Result<Figure> {
    let peak = most(trial.seed, CALADAN, Lc::Storage, None, None)?;
    let micros_ = |value: f64| Nanos::from_micros(value as u64);
    let time = |label: &str| Axis::new(label, Scale::Log, Unit::Nanoseconds);
    let qd = Parameter {
        title: "Figure 10a: beside stream-L2",
        axis: time("THRESH_QD"),
        scale: 1e3,
        be: Be::StreamL2,
        tune: |value| Tuning { thresh_qd: Nanos::from_micros(value as u64), ..TUNED },
        values: &[5.0, 10.0, 20.0, 50.0, 100.0, 200.0],
        pair: (10.0, 100.0),
    };
    let ht = Parameter {
        title: "Figure 10b: beside stream-L2",
        axis: time("THRESH_HT"),
        tune: |value| Tuning { thresh_ht: Some(Nanos::from_micros(value as u64)), ..TUNED },
        values: &[10.0, 20.0, 30.0, 35.0, 40.0, 60.0, 100.0, 200.0],
        pair: (40.0, 10.0),
        scale: 1e3,
        be: Be::StreamL2,
    };
    let bw = Parameter {
        title: "Figure 10c: beside stream-DRAM",
        axis: Axis::new("THRESH_BW, GB/s", Scale::Linear, Unit::Plain),
        scale: 1.0,
        be: Be::StreamDram,
        tune: |value| Tuning { thresh_bw: Some(1e9 * value), ..TUNED },
        values: &[15.0, 20.0, 25.0, 28.0, 30.0, 32.0],
        pair: (25.0, 32.0),
    };
    // "values below 10 μs degraded BE throughput without further improving LC tail latency"
    let below = Parameter { values: &[], pair: (10.0, 5.0), ..qd.clone() };
    let (qd, ht, bw) = (qd.sweep(peak, trial)?, ht.sweep(peak, trial)?, bw.sweep(peak, trial)?);
    let below = below.sweep(peak, trial)?;
    let measures = vec![
        measure("fig10a.be", qd.mean(|usual, lax| lax.instructions(1) / usual.instructions(1)), qd.note("µs"))?,
        measure("fig10a.tail", qd.mean(|usual, lax| tail(lax) - tail(usual)), "")?,
        measure(
            "fig10a.below-be",
            below.mean(|usual, low| low.instructions(1) / usual.instructions(1)),
            below.note("µs"),
        )?,
        measure("fig10a.below-tail", below.mean(|usual, low| tail(low) / tail(usual)), "")?,
        measure("fig10b.be", ht.mean(|usual, low| low.instructions(1) / usual.instructions(1)), ht.note("µs"))?,
        measure("fig10c.be", bw.mean(|usual, high| usual.instructions(1) / high.instructions(1)), bw.note("GB/s"))?,
        measure("fig10c.tail", bw.mean(|usual, high| tail(usual) / tail(high)), "")?,
    ];
    let [mut qd_tail, mut qd_be] = qd.charts();
    if let Some(usual) = qd.usual() {
        let x = micros_(100.0).0 as f64;
        let y = (tail(usual) + 54.0) * 1e3;
        qd_tail = qd_tail.mark(Mark::Point { x, y, label: "54 µs above that at 10 µs (paper)".into() });
        let y = 1.07 * usual.instructions(1);
        qd_be = qd_be.mark(Mark::Point { x, y, label: "7 % above that at 10 µs (paper)".into() });
    }
    let median = || Mark::AtX { x: micros_(35.0).0 as f64, label: "median (paper): lower costs throughput".into() };
    let threshold = || Mark::AtX { x: 25.0, label: "THRESH_BW (paper)".into() };
    let ht = ht.charts().map(|chart| chart.mark(median()));
    let bw = bw.charts().map(|chart| chart.mark(threshold()));
    Ok(Figure { measures, blocks: [qd_tail, qd_be].into_iter().chain(ht).chain(bw).map(Block::Chart).collect() })
}
