//! Figures 9 to 11: measures of users and providers without rKube: more CPUs, more replicas, emptier machines.

use anyhow::Result;
use quell_evidence::Measure;
use quell_sim::experiment::rkube::{ALLOCATABLE, Batch, MEMCACHED, Neighbour, Target, Tenants};

use super::grid::Grid;
use super::{batch, measure, memory_intensive};

/// CPUs that streamcluster requests (Fig. 9: "between 10 and 22"; with 22 nothing is left for a neighbour).
const REQUESTS: [u32; 6] = [10, 12, 14, 16, 18, 20];
/// The rate of all replicas together (§6.3: "at least 300k rps").
const WANTED: u32 = 300_000;
/// CPUs assigned to the neighbour where 16 of 22 are assigned, beside streamcluster's 12 and memcached's 4.
const LEFT_BESIDE_BATCH: u32 = 4;
const LEFT_BESIDE_MEMCACHED: u32 = 12;
/// Requests a second at which tails are compared; both answer as many.
const SAME_LEVEL: Target = Target::Memcached(Some(45_000));

pub fn measures(grid: &mut Grid) -> Result<Vec<Measure>> {
    let mut measures = vertical(grid)?;
    measures.extend(horizontal(grid)?);
    measures.extend(under_commitment(grid)?);
    Ok(measures)
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

fn vertical(grid: &mut Grid) -> Result<Vec<Measure>> {
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
    let mut measures = Vec::new();
    for (burstable, figure) in [(false, "fig9a"), (true, "fig9b")] {
        let baseline = job(target, burstable, false)?;
        let ours = job(target, burstable, true)? / baseline;
        let mut curves = Vec::new();
        let (mut best, mut improves) = (f64::INFINITY, 0.0_f64);
        for (strategy, name) in [(Strategy::Vertical1, "Vertical 1"), (Strategy::Vertical2, "Vertical 2")] {
            let mut curve = Vec::new();
            for cpus in REQUESTS {
                curve.push(job(of(cpus, strategy), burstable, false)? / baseline);
            }
            improves = improves.max(curve[REQUESTS.len() - 1] / curve[0]);
            best = curve.iter().fold(best, |best, &time| best.min(time));
            if burstable && strategy == Strategy::Vertical1 {
                let longest = curve[2..].iter().fold(0.0_f64, |most, &time| most.max(time));
                measures.push(measure("fig9b.drop", 1.0 / longest, "")?);
            }
            curves.push(format!("{name} {}", decimals(&curve)));
        }
        measures.push(measure(&format!("{figure}.improves"), improves, "")?);
        let at = REQUESTS.map(|cpus| cpus.to_string()).join(", ");
        measures.push(measure(&format!("{figure}.rkube"), ours, "")?);
        let note = format!("normalised times with {at} CPUs: {}; rKube {ours:.2}", curves.join("; "));
        measures.push(measure(&format!("{figure}.vertical"), ours / best, note)?);
    }
    Ok(measures)
}

fn decimals(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(", ")
}

/// Replicas that reach the wanted rate together. They do not meet: each has a host and a neighbour of its own.
#[derive(Clone, Copy)]
struct Replicas {
    neighbour: Neighbour,
    rkube: bool,
    /// The least number that can.
    least: u32,
}

impl Replicas {
    fn new(grid: &Grid, burstable: bool, rkube: bool) -> Result<Replicas> {
        let neighbour = memory_intensive(MEMCACHED, burstable);
        let most = grid.seen(MEMCACHED, Some(neighbour), rkube)?.rate();
        Ok(Replicas { neighbour, rkube, least: (f64::from(WANTED) / most).ceil() as u32 })
    }

    /// One of them, where there are this many times the least number.
    fn each(self, times: u32) -> Target {
        Target::Memcached(Some(WANTED / (times * self.least)))
    }

    /// µs.
    fn p99(self, grid: &Grid, times: u32) -> Result<f64> {
        Ok(grid.seen(self.each(times), Some(self.neighbour), self.rkube)?.p99().0 as f64 / 1e3)
    }

    fn measure(self, grid: &Grid, name: &str) -> Result<Measure> {
        let (least, twice) = (self.p99(grid, 1)?, self.p99(grid, 2)?);
        measure(name, f64::from(self.least), format!("p99 {least:.0} µs, {twice:.0} µs with twice as many"))
    }
}

fn horizontal(grid: &mut Grid) -> Result<Vec<Measure>> {
    let (capped, burstable) = (Replicas::new(grid, false, false)?, Replicas::new(grid, true, false)?);
    let (capped_rkube, burstable_rkube) = (Replicas::new(grid, false, true)?, Replicas::new(grid, true, true)?);
    let cell =
        |case: Replicas, times| (Tenants { target: case.each(times), neighbour: Some(case.neighbour) }, case.rkube);
    let cases = [capped, burstable, capped_rkube, burstable_rkube];
    grid.run("Figure 10", cases.into_iter().flat_map(|case| [cell(case, 1), cell(case, 2)]).collect())?;
    let saved = |without: Replicas, with: Replicas| f64::from(without.least) - f64::from(with.least);
    Ok(vec![
        capped.measure(grid, "fig10a.replicas")?,
        burstable.measure(grid, "fig10b.replicas")?,
        capped_rkube.measure(grid, "fig10a.rkube")?,
        burstable_rkube.measure(grid, "fig10b.rkube")?,
        measure("fig10.helpful", saved(burstable, burstable_rkube) - saved(capped, capped_rkube), "")?,
        measure("fig10b.trend", burstable.p99(grid, 2)? / burstable.p99(grid, 1)?, "")?,
        measure("fig10a.p99", capped_rkube.p99(grid, 1)?, "")?,
        measure("fig10b.p99", burstable_rkube.p99(grid, 1)?, "")?,
    ])
}

fn under_commitment(grid: &mut Grid) -> Result<Vec<Measure>> {
    let streamcluster = Target::Batch(batch("streamcluster")?);
    let with = |cpus: u32| Some(Neighbour { cpus, ..memory_intensive(MEMCACHED, false) });
    let (batch_emptier, batch_full) = (with(LEFT_BESIDE_BATCH), with(ALLOCATABLE - streamcluster.cpus()));
    let (emptier, full) = (with(LEFT_BESIDE_MEMCACHED), with(ALLOCATABLE - MEMCACHED.cpus()));
    let cells = [
        (streamcluster, None, false),
        (streamcluster, batch_emptier, false),
        (streamcluster, batch_full, false),
        (streamcluster, batch_full, true),
        (MEMCACHED, emptier, false),
        (SAME_LEVEL, emptier, false),
        (SAME_LEVEL, full, false),
        (SAME_LEVEL, full, true),
    ];
    let tenants = cells.map(|(target, neighbour, rkube)| (Tenants { target, neighbour }, rkube));
    grid.run("Figure 11", tenants.to_vec())?;
    let job = |neighbour, rkube| -> Result<f64> {
        Ok(grid.seen(streamcluster, neighbour, rkube)?.target.latencies.mean().0 as f64)
    };
    let (alone, less, standard) = (job(None, false)?, job(batch_emptier, false)?, job(batch_full, false)?);
    let ours = job(batch_full, true)?;
    let rate = |neighbour, rkube| -> Result<f64> { Ok(grid.seen(MEMCACHED, neighbour, rkube)?.rate()) };
    let rates = [rate(full, false)?, rate(emptier, false)?, rate(full, true)?];
    let seen = rates.map(|rate| format!("{:.1}k", rate / 1e3)).join(", ");
    let p99 = |neighbour, rkube| -> Result<f64> { Ok(grid.seen(SAME_LEVEL, neighbour, rkube)?.p99().0 as f64 / 1e3) };
    let (tail, our_tail) = (p99(emptier, false)?, p99(full, true)?);
    let note = format!("rKube takes {:.2} of the time without it", ours / standard);
    Ok(vec![
        measure("fig11a.trend", less / standard, "")?,
        measure("fig11a.most", alone / standard, "")?,
        measure("fig11a.rkube", ours / alone, note)?,
        measure("fig11b.trend", rates[0] / rates[1], format!("with 22 and 16 of 22, and rKube: {seen}"))?,
        measure("fig11b.tail-trend", tail / p99(full, false)?, "")?,
        measure("fig11b.p99", our_tail / tail, format!("{our_tail:.0} µs against {tail:.0} µs"))?,
        measure("fig11b.rate", rates[2] / rates[1], "")?,
    ])
}
