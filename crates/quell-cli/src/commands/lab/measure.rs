//! Cells of a comparison, several at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Result;
use quell_lab::peers::{Bench, Cell};
use rayon::prelude::*;

/// Measures those that are not in the cache, as many at once as there are CPUs for this program, and reports progress
/// on standard error. A guest in lock-step is one thread here, and its clock counts its own instructions: programs that
/// run beside it do not affect it.
pub fn measure_missing(bench: &Bench, cells: &[Cell]) -> Result<()> {
    let mut missing: Vec<_> = cells.iter().filter(|&&cell| bench.cached(cell).is_none()).copied().collect();
    // The longest ones begin first.
    missing.sort_by_key(|cell| std::cmp::Reverse(cell.cpus));
    for cell in &missing {
        bench.fetch(cell.peer)?;
    }
    let (begun, start) = (AtomicUsize::new(0), Instant::now());
    missing.par_iter().try_for_each(|&cell| {
        let Cell { scene, peer, cpus, seed } = cell;
        let (at, elapsed) = (begun.fetch_add(1, Ordering::Relaxed) + 1, start.elapsed().as_secs());
        eprintln!(
            "lab: cell {at} of {}, {elapsed} s: {}, {}, {cpus} CPUs, seed {seed}",
            missing.len(),
            scene.id,
            peer.id
        );
        bench.measure(cell)?;
        Ok(())
    })
}
