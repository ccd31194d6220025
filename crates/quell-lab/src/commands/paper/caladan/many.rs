//! Figures 7 and 8b: many tasks.

use anyhow::Result;
use quell_model::Nanos;
use quell_report::chart::{Axis, Chart, Form, Mark, Scale, Unit};
use quell_report::page::Block;
use quell_sim::experiment::caladan::{
    self as paper, Lc, Means, Seen, Span, THRESH_BW, Threads, WINDOW, Window, run, windows,
};
use rayon::prelude::*;

use super::colocation::{CALADAN, System, TUNED, Tuning, WARM_UP};
use super::{Figure, Trial, measure, micros};

/// In the order of the workloads.
const NAMES: [&str; 3] = ["memcached", "silo", "storage"];

pub fn figure7(trial: Trial) -> Result<Figure> {
    let measured = Nanos::from_secs(if trial.quick { 3 } else { 30 });
    let span = Span { seed: trial.seed, warm_up: WARM_UP, measured };
    let workloads = paper::figure7(Threads::Runtime, measured);
    let mut policy = CALADAN.policy(&[Lc::Memcached, Lc::Silo, Lc::Storage]);
    let seen = windows(CALADAN.means(), &workloads, &mut policy, span, WINDOW)?;
    let (collecting, calm): (Vec<&Window>, Vec<&Window>) = seen.iter().partition(|window| window.collecting);
    let tail = |of: &[&Window], lc: usize| {
        let mut tails: Vec<f64> = of.iter().filter_map(|w| w.p999(lc)).map(|tail| tail.0 as f64 / 1e3).collect();
        tails.sort_unstable_by(f64::total_cmp);
        tails.get(tails.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let ratios = [0, 1, 2].map(|lc| tail(&collecting, lc) / tail(&calm, lc));
    let of_each = NAMES.iter().enumerate().map(|(lc, name)| {
        format!("{name} {} while it collects, {} else", micros(tail(&collecting, lc)), micros(tail(&calm, lc)))
    });
    let most = seen.iter().map(|window| window.reallocations).max().unwrap_or(0) as f64 / WINDOW.as_secs_f64();
    let bandwidth = |of: &[&Window]| of.iter().map(|w| w.bandwidth).sum::<f64>() / of.len().max(1) as f64;
    // Both best-effort tasks together.
    let cpus = |of: &[&Window]| of.iter().map(|w| w.cpus[3] + w.cpus[4]).sum::<f64>() / of.len().max(1) as f64;
    let used = format!(
        "{:.1} GB/s while it collects, {:.1} GB/s else; {} windows of 20 ms with a collection of {}",
        bandwidth(&collecting) / 1e9,
        bandwidth(&calm) / 1e9,
        collecting.len(),
        seen.len()
    );
    let measures = vec![
        measure("fig7.reallocations", most, "the most in 20 ms")?,
        measure("fig7.tail", ratios.into_iter().fold(0.0, f64::max), of_each.collect::<Vec<_>>().join("; "))?,
        measure("fig7.calm-bandwidth", bandwidth(&calm) / THRESH_BW, used)?,
        measure("fig7.throttled", cpus(&collecting) / cpus(&calm), "")?,
    ];
    let time = || Axis::new("s", Scale::Linear, Unit::Plain);
    let mut tails =
        Chart::new("Figure 7: five tasks", time(), Axis::new("p99.9 over 20 ms", Scale::Log, Unit::Nanoseconds));
    let mut cores = Chart::new("Figure 7: CPUs", time(), Axis::new("CPUs", Scale::Linear, Unit::Plain));
    let at = |window: &Window| window.end.as_secs_f64();
    for (lc, name) in NAMES.iter().enumerate() {
        let points = seen.iter().filter_map(|w| Some((at(w), w.p999(lc)?.0 as f64)));
        tails = tails.with(*name, Form::Line, points.collect());
    }
    for (number, workload) in workloads.iter().enumerate() {
        cores = cores.with(&workload.name, Form::Steps, seen.iter().map(|w| (at(w), w.cpus[number])).collect());
    }
    let a_second = |w: &Window| (at(w), w.reallocations as f64 / WINDOW.as_secs_f64());
    let reallocations =
        Chart::new("Figure 7: CPUs that change hands", time(), Axis::new("a second", Scale::Linear, Unit::PerSecond))
            .with("Caladan", Form::Line, seen.iter().map(a_second).collect())
            .mark(Mark::AtY { y: 230e3, label: "230,000 at most (paper)".into() });
    let bandwidth = Chart::new("Figure 7: memory bandwidth", time(), Axis::new("GB/s", Scale::Linear, Unit::Plain))
        .with("all", Form::Steps, seen.iter().map(|w| (at(w), w.bandwidth / 1e9)).collect())
        .mark(Mark::AtY { y: THRESH_BW / 1e9, label: "THRESH_BW (paper)".into() });
    Ok(Figure { measures, blocks: [tails, cores, reallocations, bandwidth].map(Block::Chart).into() })
}

/// The load of which the text speaks: "at a load of 0.65 million RPS" (§7.3).
const PEAK: f64 = 650e3;

pub fn figure8b(trial: Trial) -> Result<Figure> {
    // The other loads are drawn, and the first run's note has the most over them.
    let rates: &[f64] =
        if trial.quick || !trial.is_first() { &[PEAK] } else { &[200e3, 400e3, PEAK, 1.0e6, 1.4e6, 1.8e6, 2.2e6] };
    let span =
        Span { seed: trial.seed, warm_up: WARM_UP, measured: Nanos::from_millis(if trial.quick { 60 } else { 300 }) };
    let ksched = System::Caladan(Tuning { thresh_bw: None, ..TUNED });
    let syscalls = System::Caladan(Tuning { thresh_bw: None, means: Means::Syscalls, ..TUNED });
    let sweep = |system: Option<System>| -> Result<Vec<Seen>> {
        let one = |&rate: &f64| {
            let workloads = paper::figure8b(rate, system.is_none());
            let (means, mut policy) = match system {
                Some(system) => (system.means(), system.policy(&[Lc::Synthetic])),
                None => (Means::Sets, System::Linux.policy(&[])),
            };
            Ok(run(means, &workloads, &mut policy, span)?)
        };
        rates.par_iter().with_max_len(1).map(one).collect()
    };
    let (fast, slow, pinned) = (sweep(Some(ksched))?, sweep(Some(syscalls))?, sweep(None)?);
    let peak = rates.iter().position(|&rate| rate == PEAK).unwrap_or_default();
    let most = |seen: &[Seen]| seen.iter().map(|seen| seen.reallocations).fold(0.0, f64::max);
    let note = format!(
        "at 0.65 M/s: KSCHED {}, system calls {}, pinned {}",
        micros(tail(&fast[peak])),
        micros(tail(&slow[peak])),
        micros(tail(&pinned[peak]))
    );
    let measures = vec![
        measure(
            "fig8b.reallocations",
            fast[peak].reallocations,
            format!("the most over the loads: {:.0} k/s", most(&fast) / 1e3),
        )?,
        measure(
            "fig8b.syscalls",
            slow[peak].reallocations,
            format!("the most over the loads: {:.0} k/s", most(&slow) / 1e3),
        )?,
        measure("fig8b.tail", tail(&fast[peak]) / tail(&slow[peak]), note)?,
        measure("fig8b.pinned", tail(&fast[peak]) / tail(&pinned[peak]), "")?,
    ];
    let chart = Chart::new(
        "Figure 8b: eleven tasks",
        Axis::new("requests a second", Scale::Linear, Unit::PerSecond),
        Axis::new("p99.9 of all", Scale::Log, Unit::Nanoseconds),
    );
    let of = |seen: &[Seen], y: fn(&Seen) -> f64| -> Vec<(f64, f64)> {
        rates.iter().zip(seen).map(|(rate, seen)| (*rate, y(seen))).collect()
    };
    let nanos = |seen: &Seen| tail(seen) * 1e3;
    let tails = chart
        .with("KSCHED", Form::Line, of(&fast, nanos))
        .with("system calls", Form::Line, of(&slow, nanos))
        .with("pinned", Form::Line, of(&pinned, nanos));
    let reallocations = Chart::new(
        "Figure 8b: CPUs that change hands",
        Axis::new("requests a second", Scale::Linear, Unit::PerSecond),
        Axis::new("a second", Scale::Linear, Unit::PerSecond),
    )
    .with("KSCHED", Form::Line, of(&fast, |seen| seen.reallocations))
    .with("system calls", Form::Line, of(&slow, |seen| seen.reallocations))
    .mark(Mark::Point { x: PEAK, y: 560e3, label: "560,000 (paper, KSCHED)".into() })
    .mark(Mark::AtY { y: 285e3, label: "285,000 at most (paper, system calls)".into() });
    Ok(Figure { measures, blocks: vec![Block::Chart(tails), Block::Chart(reallocations)] })
}

/// p99.9 of all latency-critical tasks together, µs.
fn tail(seen: &Seen) -> f64 {
    seen.p999_of_all(11).0 as f64 / 1e3
}
