//! Figures 8c and 9: the effect of each controller, beside the storage service.

use anyhow::Result;
use quell_model::Nanos;
use quell_policy::elfen::Mode;
use quell_report::chart::{Axis, Chart, Form, Mark, Scale, Unit};
use quell_report::page::Block;
use quell_sim::experiment::caladan::{Be, Lc, Seen};

use super::colocation::{CALADAN, Cell, System, TUNED, Tuning, most, run_all};
use super::{Figure, Trial, measure, micros};

pub(super) const LEAST: Nanos = Nanos::from_millis(40);

pub(super) fn requests(quick: bool) -> f64 {
    if quick { 6e3 } else { 150e3 }
}

/// Loads, as parts of storage's highest rate alone.
fn loads(quick: bool) -> &'static [f64] {
    if quick { &[0.05, 0.5] } else { &[0.05, 0.2, 0.35, 0.5, 0.65, 0.8] }
}

pub(super) fn tail(seen: &Seen) -> f64 {
    seen.p999(0).0 as f64 / 1e3
}

/// One system over all loads.
fn sweep(system: System, be: impl Into<Option<Be>>, peak: f64, trial: Trial) -> Result<Vec<Seen>> {
    let be = be.into();
    let cells: Vec<Cell> =
        loads(trial.quick).iter().map(|load| Cell::new(system, Lc::Storage, load * peak, be)).collect();
    run_all(trial.seed, &cells, requests(trial.quick), LEAST)
}

fn without(bandwidth: bool, hyperthread: bool) -> System {
    let thresh_bw = TUNED.thresh_bw.filter(|_| !bandwidth);
    System::Caladan(Tuning { thresh_bw, has_hyperthread_controller: !hyperthread, ..TUNED })
}

fn chart(title: &str, quick: bool, curves: &[(&str, &[Seen])], y: fn(&Seen) -> f64, axis: Axis) -> Chart {
    let x = Axis::new("load, of the most alone", Scale::Linear, Unit::Share).between(0.0, 1.2);
    let points = |seen: &[Seen]| loads(quick).iter().zip(seen).map(|(load, seen)| (*load, y(seen))).collect();
    curves.iter().fold(Chart::new(title, x, axis), |chart, (name, seen)| chart.with(*name, Form::Line, points(seen)))
}

pub(super) fn tails() -> Axis {
    Axis::new("p99.9", Scale::Log, Unit::Nanoseconds)
}

pub(super) fn instructions() -> Axis {
    Axis::new("instructions a second", Scale::Linear, Unit::PerSecond)
}

/// Figure 8c: storage beside stream-DRAM, with each controller alone, both, and none.
pub fn figure8c(trial: Trial) -> Result<Figure> {
    let peak = most(trial.seed, CALADAN, Lc::Storage, None, None)?;
    let alone = sweep(CALADAN, None, peak, trial)?;
    let run = |system| sweep(system, Be::StreamDram, peak, trial);
    let (both, bandwidth, hyperthread, neither) =
        (run(CALADAN)?, run(without(false, true))?, run(without(true, false))?, run(without(true, true))?);
    // The load between the lowest and the highest, where it matters.
    let middle = loads(trial.quick).iter().position(|&load| load >= 0.5).unwrap_or_default();
    let note = |at: usize| {
        let of = |name: &str, seen: &[Seen]| format!("{name} {}", micros(tail(&seen[at])));
        let all = [
            of("alone", &alone),
            of("both controllers", &both),
            of("bandwidth alone", &bandwidth),
            of("hyperthread alone", &hyperthread),
            of("neither", &neither),
        ];
        format!("at {:.0} % load: {}", 100.0 * loads(trial.quick)[at], all.join(", "))
    };
    let measures = vec![
        measure("fig8c.low", tail(&bandwidth[0]) / tail(&both[0]), note(0))?,
        measure("fig8c.both", tail(&both[middle]) / tail(&alone[middle]), note(middle))?,
        measure("fig8c.bandwidth", tail(&both[middle]) / tail(&hyperthread[middle]), "")?,
        measure("fig8c.hyperthread", tail(&both[middle]) / tail(&bandwidth[middle]), "")?,
    ];
    let curves: &[(&str, &[Seen])] = &[
        ("alone", &alone),
        ("both", &both),
        ("bandwidth controller", &bandwidth),
        ("hyperthread controller", &hyperthread),
        ("neither", &neither),
    ];
    let title = "Figure 8c: storage beside stream-DRAM";
    Ok(Figure {
        measures,
        blocks: vec![Block::Chart(chart(title, trial.quick, curves, |seen| tail(seen) * 1e3, tails()))],
    })
}

/// Figure 9: storage beside stream-L2 under Caladan, with Elfen's policies, and without the hyperthread controller.
pub fn figure9(trial: Trial) -> Result<Figure> {
    let peak = most(trial.seed, CALADAN, Lc::Storage, None, None)?;
    let (idle, budget) = (System::Elfen(Mode::BorrowIdle), System::Elfen(Mode::RefreshBudget));
    let elfens = most(trial.seed, budget, Lc::Storage, Be::StreamL2, None)?;
    let ours = most(trial.seed, CALADAN, Lc::Storage, Be::StreamL2, None)?;
    let run = |system| sweep(system, Be::StreamL2, peak, trial);
    let (caladan, idle, budget, unmanaged) = (run(CALADAN)?, run(idle)?, run(budget)?, run(without(false, true))?);
    let be = |seen: &[Seen]| seen[0].instructions(1);
    let low = loads(trial.quick).iter().rposition(|&load| load <= 0.2).unwrap_or_default();
    // The loads at which Elfen is not overloaded.
    let fits: Vec<usize> =
        (0..loads(trial.quick).len()).filter(|&at| loads(trial.quick)[at] * peak < 0.9 * elfens).collect();
    let lost = |at: usize| tail(&unmanaged[at]) - tail(&caladan[at]);
    let worst =
        (0..loads(trial.quick).len()).max_by(|&one, &other| lost(one).total_cmp(&lost(other))).unwrap_or_default();
    let note = format!("{:.0} k/s against {:.0} k/s", ours / 1e3, elfens / 1e3);
    let at = fits.last().copied().unwrap_or_default();
    let list = format!(
        "at {:.0} % load: Caladan {}, borrow idle {}, refresh budget {}, without the controller {}",
        100.0 * loads(trial.quick)[at],
        micros(tail(&caladan[at])),
        micros(tail(&idle[at])),
        micros(tail(&budget[at])),
        micros(tail(&unmanaged[at]))
    );
    let gained = unmanaged[at].instructions(1) / caladan[at].instructions(1);
    let measures = vec![
        measure("fig9.lc", ours / elfens, note)?,
        measure("fig9.be", be(&caladan) / be(&budget), "at the lowest load")?,
        measure("fig9.idle", idle[low].instructions(1) / budget[low].instructions(1), "")?,
        measure("fig9.idle-tail", tail(&idle[at]) / tail(&budget[at]), list)?,
        measure("fig9.unmanaged", lost(worst), format!("at {:.0} % load", 100.0 * loads(trial.quick)[worst]))?,
        measure("fig9.unmanaged-be", 1.0 / gained, "")?,
    ];
    let curves: &[(&str, &[Seen])] = &[
        ("Caladan", &caladan),
        ("Elfen, borrow idle", &idle),
        ("Elfen, refresh budget", &budget),
        ("without the hyperthread controller", &unmanaged),
    ];
    let load = |requests: f64| requests / peak;
    let tails = chart("Figure 9: storage beside stream-L2", trial.quick, curves, |seen| tail(seen) * 1e3, tails())
        .mark(Mark::AtX { x: load(elfens), label: "Elfen's most".into() })
        .mark(Mark::AtX { x: load(1.37 * elfens), label: "37 % more (paper, Caladan's)".into() })
        .mark(Mark::Point {
            x: loads(trial.quick)[worst],
            y: (tail(&caladan[worst]) + 117.0) * 1e3,
            label: "117 µs above Caladan (paper, without the controller)".into(),
        });
    let throughput = chart("Figure 9: stream-L2", trial.quick, curves, |seen| seen.instructions(1), instructions())
        .mark(Mark::Point {
            x: loads(trial.quick)[0],
            y: 1.05 * be(&budget),
            label: "5 % above Elfen (paper, Caladan)".into(),
        });
    let blocks = vec![Block::Chart(tails), Block::Chart(throughput)];
    Ok(Figure { measures, blocks })
}
