//! Figures 9 to 11: what users and providers do without rKube: more CPUs, more replicas, emptier machines.

use anyhow::Result;
use quell_evidence::Row;
use quell_sim::experiment::rkube::{ALLOCATABLE, Batch, MEMCACHED, Neighbour, Target, Tenants};

use super::grid::Grid;
use super::{batch, memory_intensive, row};

/// CPUs that streamcluster requests (Fig. 9: "between 10 and 22"; with 22 nothing is left for a neighbour).
const REQUESTS: [u32; 6] = [10, 12, 14, 16, 18, 20];
/// What all replicas answer together (§6.3: "at least 300k rps").
const WANTED: u32 = 300_000;
/// CPUs assigned to the neighbour where 16 of 22 are assigned, beside streamcluster's 12 and memcached's 4.
const LEFT_BESIDE_BATCH: u32 = 4;
const LEFT_BESIDE_MEMCACHED: u32 = 12;
/// Requests a second at which tails are compared; both answer as many.
const SAME_LEVEL: Target = Target::Memcached(Some(60_000));

pub fn rows(grid: &mut Grid) -> Result<Vec<Row>> {
    let mut rows = vertical(grid)?;
    rows.extend(horizontal(grid)?);
    rows.extend(under_commitment(grid)?);
    Ok(rows)
}

/// The two strategies of vertical scaling: threads grow with the request, or stay. The work stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Vertical1,
    Vertical2,
}

fn scaled(streamcluster: Batch, cpus: u32, strategy: Strategy) -> Batch {
    match strategy {
        Strategy::Vertical1 => Batch { cpus, threads: cpus, ..streamcluster },
        Strategy::Vertical2 => Batch { cpus, ..streamcluster },
    }
}

fn vertical(grid: &mut Grid) -> Result<Vec<Row>> {
    let streamcluster = batch("streamcluster")?;
    let target = Target::Batch(streamcluster);
    let beside = |target, burstable| Tenants { target, neighbour: Some(memory_intensive(target, burstable)) };
    let of = |cpus, strategy| Target::Batch(scaled(streamcluster, cpus, strategy));
    let mut cells = Vec::new();
    for burstable in [false, true] {
        for cpus in REQUESTS {
            cells.extend(
                [Strategy::Vertical1, Strategy::Vertical2]
                    .map(|strategy| (beside(of(cpus, strategy), burstable), false)),
            );
        }
        cells.push((beside(target, burstable), true));
    }
    grid.run("Figure 9", cells)?;
    let job = |target: Target, burstable: bool, rkube: bool| -> Result<f64> {
        let seen = grid.seen(target, Some(memory_intensive(target, burstable)), rkube)?;
        Ok(seen.target.latencies.mean().0 as f64)
    };
    let mut rows = Vec::new();
    for (burstable, figure) in [(false, "fig9a"), (true, "fig9b")] {
        let baseline = job(target, burstable, false)?;
        let ours = job(target, burstable, true)? / baseline;
        let mut curves = Vec::new();
        let mut best = f64::INFINITY;
        for (strategy, name) in [(Strategy::Vertical1, "Vertical 1"), (Strategy::Vertical2, "Vertical 2")] {
            let mut curve = Vec::new();
            for cpus in REQUESTS {
                curve.push(job(of(cpus, strategy), burstable, false)? / baseline);
            }
            best = curve.iter().fold(best, |best, &time| best.min(time));
            if burstable && strategy == Strategy::Vertical1 {
                let longest = curve[2..].iter().fold(0.0_f64, |most, &time| most.max(time));
                rows.push(row("fig9b.drop", 1.0 / longest, "")?);
            }
            curves.push(format!("{name} {}", decimals(&curve)));
        }
        let at = REQUESTS.map(|cpus| cpus.to_string()).join(", ");
        rows.push(row(&format!("{figure}.rkube"), ours, "")?);
        let note = format!("normalised times with {at} CPUs: {}; rKube {ours:.2}", curves.join("; "));
        rows.push(row(&format!("{figure}.vertical"), ours / best, note)?);
    }
    Ok(rows)
}

fn decimals(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(", ")
}

/// Replicas do not meet: each has a host and a neighbour of its own.
fn horizontal(grid: &mut Grid) -> Result<Vec<Row>> {
    let mut needed = Vec::new();
    for burstable in [false, true] {
        for rkube in [false, true] {
            let neighbour = memory_intensive(MEMCACHED, burstable);
            let most = grid.seen(MEMCACHED, Some(neighbour), rkube)?.rate();
            needed.push((neighbour, rkube, (f64::from(WANTED) / most).ceil() as u32));
        }
    }
    let each = |count: u32| Target::Memcached(Some(WANTED / count));
    let cell = |&(neighbour, rkube, count): &(Neighbour, bool, u32), times: u32| {
        (Tenants { target: each(times * count), neighbour: Some(neighbour) }, rkube)
    };
    grid.run("Figure 10", needed.iter().flat_map(|case| [cell(case, 1), cell(case, 2)]).collect())?;
    let p99 = |(neighbour, rkube, count): (Neighbour, bool, u32), times: u32| -> Result<f64> {
        Ok(grid.seen(each(times * count), Some(neighbour), rkube)?.p99().0 as f64 / 1e3)
    };
    let [capped, capped_rkube, burstable, burstable_rkube] = needed[..] else { return Ok(Vec::new()) };
    let count = |case: (Neighbour, bool, u32)| f64::from(case.2);
    let note = |case| -> Result<String> {
        Ok(format!("p99 {:.0} µs, {:.0} µs with twice as many", p99(case, 1)?, p99(case, 2)?))
    };
    Ok(vec![
        row("fig10a.replicas", count(capped), note(capped)?)?,
        row("fig10b.replicas", count(burstable), note(burstable)?)?,
        row("fig10a.rkube", count(capped_rkube), note(capped_rkube)?)?,
        row("fig10b.rkube", count(burstable_rkube), note(burstable_rkube)?)?,
        row("fig10b.trend", p99(burstable, 2)? / p99(burstable, 1)?, "")?,
        row("fig10a.p99", p99(capped_rkube, 1)?, "")?,
        row("fig10b.p99", p99(burstable_rkube, 1)?, "")?,
    ])
}

fn under_commitment(grid: &mut Grid) -> Result<Vec<Row>> {
    let streamcluster = Target::Batch(batch("streamcluster")?);
    let with = |cpus: u32| Some(Neighbour { cpus, ..memory_intensive(MEMCACHED, false) });
    let beside_batch = [None, with(LEFT_BESIDE_BATCH), with(ALLOCATABLE - streamcluster.cpus())];
    let mut cells: Vec<_> = beside_batch.map(|neighbour| (streamcluster, neighbour, false)).to_vec();
    let (emptier, full) = (with(LEFT_BESIDE_MEMCACHED), with(ALLOCATABLE - MEMCACHED.cpus()));
    cells.push((streamcluster, beside_batch[2], true));
    cells.extend([(MEMCACHED, emptier, false), (SAME_LEVEL, emptier, false), (SAME_LEVEL, full, true)]);
    let tenants = cells.iter().map(|&(target, neighbour, rkube)| (Tenants { target, neighbour }, rkube));
    grid.run("Figure 11", tenants.collect())?;
    let job = |neighbour, rkube| -> Result<f64> {
        Ok(grid.seen(streamcluster, neighbour, rkube)?.target.latencies.mean().0 as f64)
    };
    let [alone, emptier_job, full_job] =
        [job(beside_batch[0], false)?, job(beside_batch[1], false)?, job(beside_batch[2], false)?];
    let rkube_job = job(beside_batch[2], true)?;
    let rate = |neighbour, rkube| -> Result<f64> { Ok(grid.seen(MEMCACHED, neighbour, rkube)?.rate()) };
    let p99 = |neighbour, rkube| -> Result<f64> { Ok(grid.seen(SAME_LEVEL, neighbour, rkube)?.p99().0 as f64 / 1e3) };
    let (theirs, ours) = (p99(emptier, false)?, p99(full, true)?);
    let rates = (rate(full, false)?, rate(emptier, false)?, rate(full, true)?);
    let seen = format!("{:.1}k, {:.1}k; rKube {:.1}k", rates.0 / 1e3, rates.1 / 1e3, rates.2 / 1e3);
    Ok(vec![
        row("fig11a.trend", emptier_job / full_job, "")?,
        row("fig11a.most", alone / full_job, "")?,
        row(
            "fig11a.rkube",
            rkube_job / alone,
            format!("rKube {:.2} of the time beside the full neighbour", rkube_job / full_job),
        )?,
        row("fig11b.trend", rates.0 / rates.1, format!("with 22 and 16 of 22: {seen}"))?,
        row("fig11b.p99", ours / theirs, format!("{ours:.0} µs against {theirs:.0} µs"))?,
        row("fig11b.rate", rates.2 / rates.1, "")?,
    ])
}
