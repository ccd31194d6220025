//! Figures 8c, 9 and 10: what each controller and each parameter does, beside the storage service.

use anyhow::Result;
use quell_bench::chart::{Axis, Chart, Form, Scale, Unit};
use quell_bench::report::Block;
use quell_model::Nanos;
use quell_policy::elfen::Mode;
use quell_sim::experiment::caladan::{Be, Lc, Seen};

use super::colocation::{CALADAN, Cell, System, TUNED, Tuning, most, run_all};
use super::{Figure, micros, row};

const LEAST: Nanos = Nanos::from_millis(40);

fn requests(quick: bool) -> f64 {
    if quick { 6e3 } else { 150e3 }
}

/// Parts of what storage answers at most alone.
fn loads(quick: bool) -> &'static [f64] {
    if quick { &[0.05, 0.5] } else { &[0.05, 0.2, 0.35, 0.5, 0.65, 0.8] }
}

fn tail(seen: &Seen) -> f64 {
    seen.p999(0).0 as f64 / 1e3
}

/// One system over all loads.
fn sweep(system: System, be: impl Into<Option<Be>>, peak: f64, quick: bool) -> Result<Vec<Seen>> {
    let be = be.into();
    let cells: Vec<Cell> = loads(quick).iter().map(|load| Cell::new(system, Lc::Storage, load * peak, be)).collect();
    run_all(&cells, requests(quick), LEAST)
}

fn without(bandwidth: bool, hyperthread: bool) -> System {
    let thresh_bw = TUNED.thresh_bw.filter(|_| !bandwidth);
    System::Caladan(Tuning { thresh_bw, has_hyperthread_controller: !hyperthread, ..TUNED })
}

fn chart(title: &str, quick: bool, curves: &[(&str, &[Seen])], y: fn(&Seen) -> f64, axis: Axis) -> Block {
    let x = Axis::new("load, of the most alone", Scale::Linear, Unit::Share).between(0.0, 1.0);
    let points = |seen: &[Seen]| loads(quick).iter().zip(seen).map(|(load, seen)| (*load, y(seen))).collect();
    let chart = Chart::new(title, x, axis);
    Block::Chart(curves.iter().fold(chart, |chart, (name, seen)| chart.with(*name, Form::Line, points(seen))))
}

fn tails() -> Axis {
    Axis::new("p99.9", Scale::Log, Unit::Nanoseconds)
}

fn instructions() -> Axis {
    Axis::new("instructions a second", Scale::Linear, Unit::PerSecond)
}

/// Figure 8c: storage beside stream-DRAM, with each controller alone, both, and none.
pub fn figure8c(quick: bool) -> Result<Figure> {
    let peak = most(CALADAN, Lc::Storage, None, None)?;
    let alone = sweep(CALADAN, None, peak, quick)?;
    let run = |system| sweep(system, Be::StreamDram, peak, quick);
    let (both, bandwidth, hyperthread, neither) =
        (run(CALADAN)?, run(without(false, true))?, run(without(true, false))?, run(without(true, true))?);
    // The load between the lowest and the highest, where it matters.
    let middle = loads(quick).iter().position(|&load| load >= 0.5).unwrap_or_default();
    let note = |at: usize| {
        let of = |name: &str, seen: &[Seen]| format!("{name} {}", micros(tail(&seen[at])));
        let all = [
            of("alone", &alone),
            of("both controllers", &both),
            of("bandwidth alone", &bandwidth),
            of("hyperthread alone", &hyperthread),
            of("neither", &neither),
        ];
        format!("at {:.0} % load: {}", 100.0 * loads(quick)[at], all.join(", "))
    };
    let rows = vec![
        row("fig8c.low", tail(&bandwidth[0]) / tail(&both[0]), note(0))?,
        row("fig8c.both", tail(&both[middle]) / tail(&alone[middle]), note(middle))?,
        row("fig8c.bandwidth", tail(&both[middle]) / tail(&hyperthread[middle]), "")?,
        row("fig8c.hyperthread", tail(&both[middle]) / tail(&bandwidth[middle]), "")?,
    ];
    let curves: &[(&str, &[Seen])] = &[
        ("alone", &alone),
        ("both", &both),
        ("bandwidth controller", &bandwidth),
        ("hyperthread controller", &hyperthread),
        ("neither", &neither),
    ];
    let title = "Figure 8c: storage beside stream-DRAM";
    Ok(Figure { rows, blocks: vec![chart(title, quick, curves, |seen| tail(seen) * 1e3, tails())] })
}

/// Figure 9: storage beside stream-L2 under Caladan, with Elfen's policies, and without the hyperthread controller.
pub fn figure9(quick: bool) -> Result<Figure> {
    let peak = most(CALADAN, Lc::Storage, None, None)?;
    let (idle, budget) = (System::Elfen(Mode::BorrowIdle), System::Elfen(Mode::RefreshBudget));
    let elfens = most(budget, Lc::Storage, Be::StreamL2, None)?;
    let ours = most(CALADAN, Lc::Storage, Be::StreamL2, None)?;
    let run = |system| sweep(system, Be::StreamL2, peak, quick);
    let (caladan, idle, budget, unmanaged) = (run(CALADAN)?, run(idle)?, run(budget)?, run(without(false, true))?);
    let be = |seen: &[Seen]| seen[0].instructions(1);
    let low = loads(quick).iter().rposition(|&load| load <= 0.2).unwrap_or_default();
    // Where Elfen is not overloaded.
    let fits: Vec<usize> = (0..loads(quick).len()).filter(|&at| loads(quick)[at] * peak < 0.9 * elfens).collect();
    let lost = (0..loads(quick).len()).map(|at| tail(&unmanaged[at]) - tail(&caladan[at])).fold(f64::MIN, f64::max);
    let note = format!("{:.0} k/s against {:.0} k/s", ours / 1e3, elfens / 1e3);
    let at = fits.last().copied().unwrap_or_default();
    let list = format!(
        "at {:.0} % load: Caladan {}, borrow idle {}, refresh budget {}, without the controller {}",
        100.0 * loads(quick)[at],
        micros(tail(&caladan[at])),
        micros(tail(&idle[at])),
        micros(tail(&budget[at])),
        micros(tail(&unmanaged[at]))
    );
    let gained = unmanaged[at].instructions(1) / caladan[at].instructions(1);
    let rows = vec![
        row("fig9.lc", ours / elfens, note)?,
        row("fig9.be", be(&caladan) / be(&budget), "at the lowest load")?,
        row("fig9.idle", idle[low].instructions(1) / budget[low].instructions(1), "")?,
        row("fig9.idle-tail", tail(&idle[at]) / tail(&budget[at]), list)?,
        row("fig9.unmanaged", lost, "")?,
        row("fig9.unmanaged-be", 1.0 / gained, "")?,
    ];
    let curves: &[(&str, &[Seen])] = &[
        ("Caladan", &caladan),
        ("Elfen, borrow idle", &idle),
        ("Elfen, refresh budget", &budget),
        ("without the hyperthread controller", &unmanaged),
    ];
    let blocks = vec![
        chart("Figure 9: storage beside stream-L2", quick, curves, |seen| tail(seen) * 1e3, tails()),
        chart("Figure 9: stream-L2", quick, curves, |seen| seen.instructions(1), instructions()),
    ];
    Ok(Figure { rows, blocks })
}

/// Figure 10: storage at half its load, one parameter after the other.
pub fn figure10(quick: bool) -> Result<Figure> {
    let rate = 0.5 * most(CALADAN, Lc::Storage, None, None)?;
    let micros_ = Nanos::from_micros;
    let cell = |tuning, be| Cell::new(System::Caladan(tuning), Lc::Storage, rate, be);
    let delays: &[u64] = if quick { &[10, 100] } else { &[5, 10, 20, 50, 100, 200] };
    let qd: Vec<Cell> =
        delays.iter().map(|&qd| cell(Tuning { thresh_qd: micros_(qd), ..TUNED }, Be::StreamL2)).collect();
    let times: &[u64] = if quick { &[10, 40] } else { &[10, 20, 30, 40, 60, 100, 200] };
    let ht: Vec<Cell> =
        times.iter().map(|&ht| cell(Tuning { thresh_ht: Some(micros_(ht)), ..TUNED }, Be::StreamL2)).collect();
    let bandwidths: &[f64] = if quick { &[25e9, 32e9] } else { &[15e9, 20e9, 25e9, 28e9, 30e9, 32e9] };
    let bw: Vec<Cell> =
        bandwidths.iter().map(|&bw| cell(Tuning { thresh_bw: Some(bw), ..TUNED }, Be::StreamDram)).collect();
    let run = |cells: &[Cell]| run_all(cells, 3.0 * requests(quick), LEAST);
    let (qd, ht, bw) = (run(&qd)?, run(&ht)?, run(&bw)?);
    let at = |values: &[u64], value: u64| values.iter().position(|&other| other == value).unwrap_or_default();
    let (usual, lax) = (&qd[at(delays, 10)], &qd[at(delays, 100)]);
    let (low, set) = (&ht[at(times, 10)], &ht[at(times, 40)]);
    let bw_at = |value: f64| &bw[bandwidths.iter().position(|&other| other == value).unwrap_or_default()];
    let (threshold, saturated) = (bw_at(25e9), bw_at(32e9));
    let list = |values: &[u64], seen: &[Seen]| {
        let of = values.iter().zip(seen).map(|(value, seen)| {
            format!("{value} µs: p99.9 {}, BE {:.1} G/s", micros(tail(seen)), seen.instructions(1) / 1e9)
        });
        of.collect::<Vec<_>>().join("; ")
    };
    let of_bw = bandwidths.iter().zip(&bw).map(|(value, seen)| {
        format!("{:.0} GB/s: p99.9 {}, BE {:.2} G/s", value / 1e9, micros(tail(seen)), seen.instructions(1) / 1e9)
    });
    let rows = vec![
        row("fig10a.be", lax.instructions(1) / usual.instructions(1), list(delays, &qd))?,
        row("fig10a.tail", tail(lax) - tail(usual), "")?,
        row("fig10b.be", low.instructions(1) / set.instructions(1), list(times, &ht))?,
        row("fig10c.be", threshold.instructions(1) / saturated.instructions(1), of_bw.collect::<Vec<_>>().join("; "))?,
        row("fig10c.tail", tail(threshold) / tail(saturated), "")?,
    ];
    let chart = |title: &str, x: Axis, values: Vec<f64>, seen: &[Seen]| {
        let points: Vec<(f64, f64)> = values.iter().zip(seen).map(|(x, seen)| (*x, tail(seen) * 1e3)).collect();
        Block::Chart(Chart::new(title, x, tails()).with("storage", Form::Line, points))
    };
    let time = |label: &str| Axis::new(label, Scale::Log, Unit::Nanoseconds);
    let nanos = |values: &[u64]| values.iter().map(|&micros| micros as f64 * 1e3).collect::<Vec<f64>>();
    let blocks = vec![
        chart("Figure 10a: beside stream-L2", time("THRESH_QD"), nanos(delays), &qd),
        chart("Figure 10b: beside stream-L2", time("THRESH_HT"), nanos(times), &ht),
        chart(
            "Figure 10c: beside stream-DRAM",
            Axis::new("THRESH_BW, GB/s", Scale::Linear, Unit::Plain),
            bandwidths.iter().map(|bw| bw / 1e9).collect(),
            &bw,
        ),
    ];
    Ok(Figure { rows, blocks })
}
