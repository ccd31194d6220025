//! Figure 6: each latency-critical application beside each best-effort one.

use anyhow::Result;
use quell_model::Nanos;
use quell_report::chart::{Axis, Chart, Form, Scale, Unit};
use quell_report::page::Block;
use quell_sim::experiment::caladan::{Be, Lc, Seen};

use super::colocation::{CALADAN, Cell, most, run_all};
use super::{Figure, Trial, measure, micros};

/// Loads, as parts of the application's highest rate alone.
const LOADS: [f64; 4] = [0.1, 0.3, 0.5, 0.7];
const QUICK: [f64; 1] = [0.3];
/// At this one the notes speak of all pairs.
const NOTED: f64 = 0.3;

/// A pair at a load.
struct Point {
    lc: Lc,
    be: Be,
    load: f64,
    /// p99.9, µs, alone and beside.
    tail: (f64, f64),
    /// Throughput of the best-effort application as part of that alone on all CPUs.
    be_throughput: f64,
    /// CPUs that it got, of those that the other left.
    be_cpus: f64,
}

/// Long enough for a collection.
fn least(be: Option<Be>, quick: bool) -> Nanos {
    match be {
        Some(Be::SwaptionsGc) if !quick => Nanos::from_millis(3_500),
        _ => Nanos::from_millis(if quick { 20 } else { 40 }),
    }
}

fn points(trial: Trial) -> Result<Vec<Point>> {
    let loads: &[f64] = if trial.quick { &QUICK } else { &LOADS };
    let requests = if trial.quick { 6e3 } else { 100e3 };
    // Best-effort applications alone: beside a server without requests.
    let alone_be = Be::ALL.map(|be| Cell::new(CALADAN, Lc::Silo, 100.0, be));
    let alone_be = run_all(trial.seed, &alone_be, 0.0, least(Some(Be::SwaptionsGc), trial.quick))?;
    let mut points = Vec::new();
    for lc in Lc::ALL {
        let peak = most(trial.seed, CALADAN, lc, None, None)?;
        let alone: Vec<Cell> = loads.iter().map(|load| Cell::new(CALADAN, lc, load * peak, None)).collect();
        let alone = run_all(trial.seed, &alone, requests, least(None, trial.quick))?;
        let pairs: Vec<(Be, usize)> =
            Be::ALL.into_iter().flat_map(|be| (0..loads.len()).map(move |load| (be, load))).collect();
        // A collection takes seconds: of memcached's millions of requests a second fewer loads are run beside it.
        let pairs: Vec<(Be, usize)> = pairs
            .into_iter()
            .filter(|&(be, load)| (lc, be) != (Lc::Memcached, Be::SwaptionsGc) || loads[load] <= NOTED)
            .collect();
        let cells = |be: Be| -> Vec<(Cell, usize)> {
            let own = pairs.iter().filter(|pair| pair.0 == be);
            own.map(|&(be, load)| (Cell::new(CALADAN, lc, loads[load] * peak, be), load)).collect()
        };
        for (be, be_alone) in Be::ALL.into_iter().zip(&alone_be) {
            let cells = cells(be);
            let only: Vec<Cell> = cells.iter().map(|(cell, _)| *cell).collect();
            let seen: Vec<Seen> = run_all(trial.seed, &only, requests, least(Some(be), trial.quick))?;
            for ((_, load), seen) in cells.iter().zip(&seen) {
                let micros = |seen: &Seen| seen.p999(0).0 as f64 / 1e3;
                points.push(Point {
                    lc,
                    be,
                    load: loads[*load],
                    tail: (micros(&alone[*load]), micros(seen)),
                    be_throughput: seen.instructions(1) / be_alone.instructions(1),
                    be_cpus: seen.cpus(1) / (22.0 - seen.cpus(0)),
                });
            }
        }
    }
    Ok(points)
}

pub fn figure6(trial: Trial) -> Result<Figure> {
    let points = points(trial)?;
    let worst = |lcs: &[Lc], at: &dyn Fn(f64) -> bool| {
        let of = points.iter().filter(|point| lcs.contains(&point.lc) && at(point.load));
        of.map(|point| point.tail.1 / point.tail.0).fold(0.0, f64::max)
    };
    let list = |lcs: &[Lc]| {
        let of = points.iter().filter(|point| lcs.contains(&point.lc) && point.load == NOTED);
        let of = of.map(|point| {
            let (lc, be) = (point.lc.name(), point.be.name());
            format!("{lc} beside {be} {} ({} alone)", micros(point.tail.1), micros(point.tail.0))
        });
        format!("at 30 %: {}", of.collect::<Vec<_>>().join(", "))
    };
    let mean_of = |of: &dyn Fn(&Point) -> bool, what: fn(&Point) -> f64| {
        let of: Vec<f64> = points.iter().filter(|point| of(point)).map(what).collect();
        of.iter().sum::<f64>() / of.len().max(1) as f64
    };
    let mean = |of: &[Be], what: fn(&Point) -> f64| mean_of(&|point| of.contains(&point.be), what);
    let loads = points.iter().map(|point| point.load);
    let (lowest, highest) = loads.fold((f64::INFINITY, 0.0_f64), |(low, high), load| (low.min(load), high.max(load)));
    let silo_low = mean_of(&|point| point.lc == Lc::Silo && point.load == lowest, |point| point.tail.1 / point.tail.0);
    let (modest, heavy) = ([Be::X264, Be::SwaptionsGc, Be::StreamL2], [Be::Streamcluster, Be::StreamDram]);
    let heavy_at = |load: f64| mean_of(&|p| heavy.contains(&p.be) && p.load == load, |p| p.be_cpus);
    let throughput: Vec<String> = points
        .iter()
        .filter(|point| point.load == NOTED)
        .map(|point| format!("{} beside {} {:.2}", point.be.name(), point.lc.name(), point.be_throughput))
        .collect();
    let measures = vec![
        measure("fig6.tail", worst(&[Lc::Storage, Lc::Memcached], &|_| true), list(&[Lc::Storage, Lc::Memcached]))?,
        measure("fig6.silo-low", silo_low, list(&[Lc::Silo]))?,
        measure("fig6.silo-high", worst(&[Lc::Silo], &|load| load == highest), "")?,
        measure("fig6.throttled", mean(&heavy, |p| p.be_cpus) / mean(&modest, |p| p.be_cpus), "")?,
        measure("fig6.throttled-less", heavy_at(highest) / heavy_at(lowest), "")?,
        measure("fig6.throughput", mean(&modest, |p| p.be_throughput / (1.0 - p.load)), throughput.join(", "))?,
    ];
    let mut blocks = Vec::new();
    for lc in Lc::ALL {
        let axis = || Axis::new("load, of the most alone", Scale::Linear, Unit::Share).between(0.0, 1.0);
        let tail = Axis::new("p99.9", Scale::Log, Unit::Nanoseconds);
        let mut tails = Chart::new(format!("Figure 6: {}, tail", lc.name()), axis(), tail);
        let share = Axis::new("of that alone", Scale::Linear, Unit::Share);
        let mut shares = Chart::new(format!("Figure 6: beside {}, throughput", lc.name()), axis(), share);
        let of = |be: Option<Be>, y: fn(&Point) -> f64| -> Vec<(f64, f64)> {
            let own = points.iter().filter(|point| point.lc == lc && be.is_none_or(|be| point.be == be));
            own.map(|point| (point.load, y(point))).collect()
        };
        tails = tails.with("alone", Form::Points, of(None, |point| point.tail.0 * 1e3));
        for be in Be::ALL {
            tails = tails.with(be.name(), Form::Line, of(Some(be), |point| point.tail.1 * 1e3));
            shares = shares.with(be.name(), Form::Line, of(Some(be), |point| point.be_throughput));
        }
        blocks.extend([Block::Chart(tails), Block::Chart(shares)]);
    }
    Ok(Figure { measures, blocks })
}
