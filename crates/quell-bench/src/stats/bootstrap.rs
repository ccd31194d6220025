//! Confidence intervals of quantiles by the block bootstrap.
//!
//! Neighbouring requests wait behind each other, so single latencies are not independent and the textbook interval
//! would be far too narrow. Whole blocks of time are therefore drawn with replacement; each draw gives one quantile;
//! the middle 95 % of those are the interval. It covers the run's own noise only, not differences between runs.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Histogram;

/// The share of draws within an interval.
pub const CONFIDENCE: f64 = 0.95;
/// Draws for one interval.
pub const RESAMPLES: usize = 300;
/// With fewer blocks than this there is no interval.
const FEWEST_BLOCKS: usize = 10;

/// A sample that is divided into blocks of time.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// Every block's cells, all sorted by value, descending.
    cells: Vec<Cell>,
    /// Values in each block.
    totals: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    ns: u64,
    block: u32,
    count: u64,
}

impl Blocks {
    /// The blocks, one histogram each, in any order.
    pub fn new<'a>(blocks: impl IntoIterator<Item = &'a Histogram>) -> Self {
        let mut all = Self::default();
        for block in blocks {
            all.push(block);
        }
        all.finish();
        all
    }

    /// Adds a block. The histogram can be used anew afterwards; call [`Blocks::finish`] after the last one.
    pub(crate) fn push(&mut self, block: &Histogram) {
        let number = self.totals.len() as u32;
        self.totals.push(block.count());
        self.cells.extend(block.cells().map(|(ns, count)| Cell { ns, block: number, count }));
    }

    pub(crate) fn finish(&mut self) {
        self.cells.sort_unstable_by_key(|cell| std::cmp::Reverse(cell.ns));
    }

    /// Intervals (low, high), ns, for quantiles given in ascending order; `None` with too few blocks. The same seed
    /// gives the same intervals.
    #[must_use]
    pub fn intervals(&self, quantiles: &[f64], seed: u64) -> Option<Vec<(u64, u64)>> {
        debug_assert!(quantiles.is_sorted());
        let blocks = self.totals.len();
        if blocks < FEWEST_BLOCKS {
            return None;
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draws = vec![Vec::with_capacity(RESAMPLES); quantiles.len()];
        let mut weights = vec![0u64; blocks];
        for _ in 0..RESAMPLES {
            weights.fill(0);
            for _ in 0..blocks {
                weights[rng.random_range(0..blocks)] += 1;
            }
            self.quantiles(&weights, quantiles, |index, ns| draws[index].push(ns));
        }
        Some(draws.into_iter().map(middle).collect())
    }

    /// The quantiles of the sample in which block `b` stands `weights[b]` times, largest quantile first.
    fn quantiles(&self, weights: &[u64], quantiles: &[f64], mut found: impl FnMut(usize, u64)) {
        let total: u64 = self.totals.iter().zip(weights).map(|(n, w)| n * w).sum();
        let mut wanted = quantiles.iter().enumerate().rev().peekable();
        let mut above = 0;
        for cell in &self.cells {
            above += cell.count * weights[cell.block as usize];
            while let Some((index, q)) = wanted.peek() {
                // The quantile is the value of this rank, counted from the smallest.
                let rank = ((*q * total as f64).ceil() as u64).max(1);
                if above + rank <= total {
                    break;
                }
                found(*index, cell.ns);
                wanted.next();
            }
            if wanted.peek().is_none() {
                return;
            }
        }
    }
}

fn middle(mut draws: Vec<u64>) -> (u64, u64) {
    draws.sort_unstable();
    let Some(last) = draws.len().checked_sub(1) else {
        return (0, 0);
    };
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let at = |share: f64| draws[(share * last as f64).round() as usize];
    (at(tail), at(1.0 - tail))
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, Exp1};

    use super::*;

    fn exponential_blocks(seed: u64, blocks: usize, per_block: usize) -> Vec<Histogram> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = || -> f64 { Exp1.sample(&mut rng) };
        (0..blocks).map(|_| (0..per_block).map(|_| (draw() * 1e5) as u64).collect()).collect()
    }

    #[test]
    fn with_every_block_once_it_is_the_plain_quantile() {
        let blocks = exponential_blocks(3, 12, 500);
        let mut whole = Histogram::default();
        blocks.iter().for_each(|block| whole.merge(block));
        let quantiles = [0.5, 0.9, 0.99, 0.999];
        let mut seen = [0; 4];
        Blocks::new(&blocks).quantiles(&[1; 12], &quantiles, |index, ns| seen[index] = ns);
        assert_eq!(seen, quantiles.map(|q| whole.quantile(q)));
    }

    /// The interval's promise: over many samples it holds the truth about 95 times in 100.
    #[test]
    fn intervals_cover_the_true_quantile() {
        let truth = 1e5 * -(1.0f64 - 0.9).ln();
        let trials = 60;
        let covered = (0..trials)
            .filter(|seed| {
                let blocks = Blocks::new(&exponential_blocks(*seed, 40, 100));
                let (low, high) = blocks.intervals(&[0.9], 1).unwrap()[0];
                (low as f64..=high as f64).contains(&truth)
            })
            .count();
        assert!((50..=trials as usize).contains(&covered), "{covered} of {trials}");
    }

    #[test]
    fn one_bad_block_widens_the_interval() {
        let mut blocks = exponential_blocks(3, 40, 200);
        let width = |blocks: &[Histogram]| {
            let (low, high) = Blocks::new(blocks).intervals(&[0.99], 1).unwrap()[0];
            high - low
        };
        let calm = width(&blocks);
        blocks[7] = std::iter::repeat_n(10_000_000, 200).collect();
        assert!(width(&blocks) > 10 * calm);
    }

    #[test]
    fn few_blocks_give_no_interval_and_empty_ones_do_no_harm() {
        assert!(Blocks::new(&exponential_blocks(1, 9, 10)).intervals(&[0.5], 1).is_none());
        let empty = vec![Histogram::default(); 20];
        assert_eq!(Blocks::new(&empty).intervals(&[0.5], 1).unwrap(), [(0, 0)]);
    }
}
