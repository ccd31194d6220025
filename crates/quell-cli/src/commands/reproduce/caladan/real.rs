//! `quell reproduce caladan`: what Quell's kernel half promises for unmodified programs, on a real kernel in the lab.

use anyhow::{Context, Result};
use quell_bench::human;
use quell_evidence::{Claim, Row, caladan};
use quell_lab::peers::pool::{Ratio, quantile, ratio};
use quell_lab::peers::{Bench, CellResult, PEERS, Peer};
use quell_lab::{Lab, ToStderr};

/// Seeds, and how long each cell's load lasts: 105,000 requests a row together.
const FULL: (u64, u32) = (5, 18);
/// Shows that it runs.
const QUICK: (u64, u32) = (1, 2);

/// Runs all cases; without `real` none can be run.
pub fn run(quick: bool, real: bool) -> Result<Vec<Row>> {
    let all = caladan::REAL.iter().flat_map(|case| [case.p99, case.p999, case.work]);
    if !real {
        return Ok(all.map(|claim| Row::not_run(claim, "needs a real kernel: say --real")).collect());
    }
    let (seeds, seconds) = if quick { QUICK } else { FULL };
    let lab = Lab::new(&ToStderr)?;
    let bench = Bench::new(&lab, &std::env::current_exe()?, None, 1, seconds)?;
    let mut rows = Vec::new();
    for case in caladan::REAL.iter().filter(|case| !quick || case.cpus == 2) {
        let cells = |id: &str| measured(&bench, id, case.cpus, seeds);
        let (alone, fifo, ours) = (cells("alone")?, cells("fifo")?, cells("caladan")?);
        let p99 = |cells: &[&CellResult]| quantile(cells, 0.99);
        let p999 = |cells: &[&CellResult]| quantile(cells, 0.999);
        rows.push(latency(case.p99, &ours, &alone, p99));
        rows.push(latency(case.p999, &ours, &fifo, p999));
        let kept = ratio(&ours, &fifo, work);
        let note = format!(
            "{:.0} blocks/s beside {:.0}; kept: {}",
            work(&ours.iter().collect::<Vec<_>>()),
            work(&fifo.iter().collect::<Vec<_>>()),
            interval(&kept)
        );
        rows.push(Row::measured(case.work, 1.0 - kept.value, note));
    }
    Ok(rows)
}

fn measured(bench: &Bench<'_>, id: &str, cpus: u32, seeds: u64) -> Result<Vec<CellResult>> {
    let peer: &Peer = PEERS.iter().find(|peer| peer.id == id).context("the lab knows this peer")?;
    (1..=seeds)
        .map(|seed| {
            if bench.cached(peer, cpus, seed).is_none() {
                eprintln!("reproduce: {} on {cpus} CPUs, seed {seed} of {seeds}", peer.title);
            }
            Ok(bench.measure(peer, cpus, seed)?)
        })
        .collect()
}

fn latency(claim: &'static Claim, ours: &[CellResult], theirs: &[CellResult], of: fn(&[&CellResult]) -> f64) -> Row {
    let found = ratio(ours, theirs, of);
    let all = |cells: &[CellResult]| human::nanoseconds(of(&cells.iter().collect::<Vec<_>>()) as u64);
    let note = format!("{} against {}; {}", all(ours), all(theirs), interval(&found));
    Row::measured(claim, found.value, note)
}

/// Blocks a second of the antagonist, the mean over the seeds.
fn work(cells: &[&CellResult]) -> f64 {
    cells.iter().filter_map(|cell| cell.antagonist_blocks_per_s).sum::<f64>() / cells.len().max(1) as f64
}

fn interval(ratio: &Ratio) -> String {
    let (low, high) = ratio.interval;
    format!("{:.3}, 95 % interval {low:.3}–{high:.3}", ratio.value)
}
