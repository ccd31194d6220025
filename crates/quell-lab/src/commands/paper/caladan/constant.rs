//! Figure 4: memcached beside an antagonist that streams through memory all the time; and the time that Parties* needs
//! to find an allocation for it (Table 1).

use anyhow::{Context, Result};
use quell_model::Nanos;
use quell_report::chart::{Axis, Chart, Form, Mark, Scale, Unit};
use quell_report::page::Block;
use quell_sim::experiment::caladan::{Be, Lc, Span, Window, windows};
use rayon::prelude::*;

use super::colocation::{CALADAN, Cell, System, most, run_all, targets};
use super::phases::RATE;
use super::{Figure, Trial, measure, micros};

/// Loads, as parts of each system's highest rate beside the antagonist.
const LOADS: [f64; 6] = [0.1, 0.3, 0.5, 0.7, 0.85, 0.97];
const QUICK: [f64; 2] = [0.1, 0.97];

/// One system's tails.
struct Curve {
    system: System,
    /// Requests a second at most, alone and beside.
    most: (f64, f64),
    /// Requests a second; p99.9 in µs alone and beside.
    points: Vec<(f64, f64, f64)>,
}

impl Curve {
    /// Up to the system's highest rate beside the antagonist.
    fn of(system: System, trial: Trial) -> Result<Curve> {
        let (alone, beside) = (
            most(trial.seed, system, Lc::Memcached, None, None)?,
            most(trial.seed, system, Lc::Memcached, Be::StreamDram, None)?,
        );
        let loads: &[f64] = if trial.quick { &QUICK } else { &LOADS };
        let rates: Vec<f64> = loads.iter().map(|load| load * beside.min(alone)).collect();
        let cells = |be: Option<Be>| -> Vec<Cell> {
            rates.iter().map(|&rate| Cell::new(system, Lc::Memcached, rate, be)).collect()
        };
        let requests = if trial.quick { 20e3 } else { 200e3 };
        let least = Nanos::from_millis(if trial.quick { 15 } else { 50 });
        let (calm, disturbed) = (
            run_all(trial.seed, &cells(None), requests, least)?,
            run_all(trial.seed, &cells(Some(Be::StreamDram)), requests, least)?,
        );
        let tail = |seen: &quell_sim::experiment::caladan::Seen| seen.p999(0).0 as f64 / 1e3;
        let points = rates.iter().zip(calm.iter().zip(&disturbed));
        let points = points.map(|(&rate, (calm, disturbed))| (rate, tail(calm), tail(disturbed))).collect();
        Ok(Curve { system, most: (alone, beside), points })
    }

    /// The load with the largest effect of the antagonist.
    fn worst(&self) -> Option<(f64, f64, f64)> {
        let ratio = |point: &(f64, f64, f64)| point.2 / point.1;
        self.points.iter().copied().max_by(|one, other| ratio(one).total_cmp(&ratio(other)))
    }

    /// The largest of the tails' ratios.
    fn ratio(&self) -> f64 {
        self.worst().map_or(0.0, |(_, calm, disturbed)| disturbed / calm)
    }

    /// The load with the largest ratio, and that multiple of the tail alone there.
    fn quoted(&self, ratio: f64) -> Option<Mark> {
        let (x, calm, _) = self.worst()?;
        let label = format!("{ratio} times that alone (paper, {})", self.system.name());
        Some(Mark::Point { x, y: calm * 1e3 * ratio, label })
    }

    fn note(&self) -> String {
        let points = self.points.iter().map(|(rate, calm, disturbed)| {
            format!("{:.2} M/s: {} alone, {} beside", rate / 1e6, micros(*calm), micros(*disturbed))
        });
        let (alone, beside) = self.most;
        format!(
            "{}; at most {:.2} M/s alone, {:.2} M/s beside",
            points.collect::<Vec<_>>().join("; "),
            alone / 1e6,
            beside / 1e6
        )
    }
}

pub fn figure4(trial: Trial) -> Result<Figure> {
    let systems = [System::Linux, System::Shenango, CALADAN];
    let (curves, parties) = rayon::join(
        || systems.par_iter().map(|&system| Curve::of(system, trial)).collect::<Result<Vec<Curve>>>(),
        || Searches::of(trial),
    );
    let (curves, parties) = (curves?, parties?);
    let [linux, shenango, ours] = &curves[..] else { unreachable!("three systems") };
    let (shortest, quickest) = (parties.shortest()?, parties.quickest()?);
    let measures = vec![
        measure("fig4.linux", linux.ratio(), linux.note())?,
        measure(
            "fig4.shenango",
            shenango.ratio(),
            format!("{}; {}", without_memory(shenango, trial)?, shenango.note()),
        )?,
        measure("fig4.shenango-rate", shenango.most.1 / shenango.most.0, "")?,
        measure(
            "fig4.shenango-throughput",
            shenango.most.0 / ours.most.0,
            "what its core forwards at most is an input",
        )?,
        measure("fig4.caladan", ours.ratio(), ours.note())?,
        measure("fig4.parties", shortest.settled / parties.alone, parties.note())?,
        measure("fig4.linux-rate", linux.most.0 / ours.most.0, "the part of the kernel's network is assumed")?,
        measure("fig4.linux-parties-rate", linux.most.0 / parties.most, "")?,
        measure(
            "table1.parties-convergence",
            quickest.after.as_secs_f64(),
            format!("asked to keep {} µs", quickest.target.0 / 1_000),
        )?,
    ];
    let axis = Axis::new("requests a second", Scale::Linear, Unit::PerSecond);
    let mut chart =
        Chart::new("Figure 4: memcached beside stream-DRAM", axis, Axis::new("p99.9", Scale::Log, Unit::Nanoseconds));
    for curve in &curves {
        let name = curve.system.name();
        let alone = curve.points.iter().map(|(rate, calm, _)| (*rate, calm * 1e3)).collect();
        let beside = curve.points.iter().map(|(rate, _, disturbed)| (*rate, disturbed * 1e3)).collect();
        chart = chart.with(format!("{name}, alone"), Form::Points, alone).with(name, Form::Line, beside);
    }
    chart = chart.with("Parties*", Form::Points, vec![(RATE, shortest.settled * 1e3)]);
    let left = Mark::AtX { x: 0.25 * shenango.most.0, label: "what 75 % less leaves Shenango (paper)".into() };
    let quoted = linux.quoted(235.0).into_iter().chain(shenango.quoted(6.0)).chain([left]);
    chart = quoted.fold(chart, Chart::mark);
    let search = Chart::new(
        "Table 1: CPUs of stream-DRAM under Parties*",
        Axis::new("s", Scale::Linear, Unit::Plain),
        Axis::new("CPUs", Scale::Linear, Unit::Plain),
    )
    .with("Parties*", Form::Steps, quickest.cpus.clone())
    .mark(Mark::Span { from: 10.0, to: 20.0, label: "typical convergence (paper)".into() });
    Ok(Figure { measures, blocks: vec![Block::Chart(chart), Block::Chart(search)] })
}

/// A control: the tail where the antagonist hurts most, beside a program that uses no memory.
fn without_memory(curve: &Curve, trial: Trial) -> Result<String> {
    let Some((rate, calm, _)) = curve.worst() else { return Ok(String::new()) };
    let cell = Cell::new(curve.system, Lc::Memcached, rate, Be::Synthetic);
    let seen = cell.run(trial.seed, if trial.quick { 40e3 } else { 200e3 }, Nanos::from_millis(15))?;
    let ratio = seen.p999(0).0 as f64 / 1e3 / calm;
    Ok(format!("beside a program that uses no memory, at {:.2} M/s: {ratio:.2} times that alone", rate / 1e6))
}

/// The searches of Parties* for an allocation, one a target.
struct Searches {
    /// Requests a second at most, alone.
    most: f64,
    /// p99.9 alone, µs.
    alone: f64,
    all: Vec<Search>,
}

/// One search.
struct Search {
    target: Nanos,
    /// From then on the tail was kept for as long as it was looked at, or until the next trial.
    after: Nanos,
    /// p99.9 after that, µs: the median of half seconds.
    settled: f64,
    cpus: Vec<(f64, f64)>,
}

impl Searches {
    fn of(trial: Trial) -> Result<Searches> {
        let alone =
            Cell::new(System::Parties, Lc::Memcached, RATE, None).run(trial.seed, 100e3, Nanos::from_millis(100))?;
        let most = most(trial.seed, System::Parties, Lc::Memcached, None, None)?;
        let searches = targets(trial.quick).into_par_iter().with_max_len(1).map(|target| Search::of(target, trial));
        let all = searches.collect::<Result<Vec<Option<Search>>>>()?.into_iter().flatten().collect();
        Ok(Searches { most, alone: alone.p999(0).0 as f64 / 1e3, all })
    }

    /// The one with the shortest tail once it has settled.
    fn shortest(&self) -> Result<&Search> {
        let by_tail = |one: &&Search, other: &&Search| one.settled.total_cmp(&other.settled);
        self.all.iter().min_by(by_tail).context("Parties* has not settled")
    }

    /// The one that settles first.
    fn quickest(&self) -> Result<&Search> {
        self.all.iter().min_by_key(|search| search.after).context("Parties* has not settled")
    }

    fn note(&self) -> String {
        let each = self.all.iter().map(|search| {
            let settled = micros(search.settled);
            format!("{} µs {settled} after {:.1} s", search.target.0 / 1_000, search.after.as_secs_f64())
        });
        let each = each.collect::<Vec<_>>().join(", ");
        format!("{} alone; of each target that it settles at, the tail then: {each}", micros(self.alone))
    }
}

impl Search {
    /// None: it does not settle.
    fn of(target: Nanos, trial: Trial) -> Result<Option<Search>> {
        let beside = Cell { target, ..Cell::new(System::Parties, Lc::Memcached, RATE, Be::StreamDram) };
        let measured = Nanos::from_secs(if trial.quick { 8 } else { 30 });
        let span = Span { seed: trial.seed, warm_up: Nanos::ZERO, measured };
        let half = Nanos::from_millis(500);
        let seen = windows(beside.system.means(), &beside.workloads(), &mut beside.policy(), span, half)?;
        let Some(after) = settles(&seen, target) else { return Ok(None) };
        let mut tails: Vec<Nanos> = seen.iter().filter(|w| w.end > after).filter_map(|w| w.p999(0)).collect();
        tails.sort_unstable();
        let settled = tails.get(tails.len() / 2).copied().unwrap_or(Nanos::MAX).0 as f64 / 1e3;
        let cpus = seen.iter().map(|window| (window.end.as_secs_f64(), window.cpus[1])).collect();
        Ok(Some(Search { target, after, settled, cpus }))
    }
}

/// The end of the first half second from which on the target was kept and CPUs stayed where they were for two seconds.
fn settles(seen: &[Window], target: Nanos) -> Option<Nanos> {
    let calm = |windows: &[Window]| {
        let stays = windows.iter().all(|window| (window.cpus[1] - windows[0].cpus[1]).abs() < 0.5);
        stays && windows.iter().all(|window| window.p999(0).is_some_and(|tail| tail <= target))
    };
    seen.windows(4).position(calm).map(|at| seen[at].end)
}
