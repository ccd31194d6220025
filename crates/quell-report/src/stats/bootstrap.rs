//! Confidence intervals of quantiles by the block bootstrap.
//!
//! Neighbouring requests wait behind each other, so single latencies are not independent and the textbook interval
//! would be far too narrow. Whole blocks of time are therefore drawn with replacement; each draw gives one quantile;
//! the middle 95 % of those are the interval. It covers the run's own noise only, not differences between runs, and is
//! too narrow where effects last longer than a block.

/// The share of draws within an interval.
pub const CONFIDENCE: f64 = 0.95;
/// With fewer blocks that have a value there is no interval.
const FEWEST_BLOCKS: usize = 10;

/// A sample that is divided into blocks of time.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// Every block's cells.
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
    /// Adds a block, given as cells: a value, ns, and its count. The order of blocks matters only for the block that a
    /// number of the draw selects.
    pub fn push(&mut self, block: impl IntoIterator<Item = (u64, u64)>) {
        let number = self.totals.len() as u32;
        let first = self.cells.len();
        self.cells.extend(block.into_iter().map(|(ns, count)| Cell { ns, block: number, count }));
        self.totals.push(self.cells[first..].iter().map(|cell| cell.count).sum());
    }

    /// Number of values in all blocks.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.totals.iter().sum()
    }

    /// Intervals (low, high), ns, for quantiles given in ascending order; `None` where fewer than ten blocks have a
    /// value. `draws` samples are drawn; `below` gives a random number below its argument, and the same numbers give
    /// the same intervals.
    #[must_use]
    pub fn intervals(
        self,
        quantiles: &[f64],
        draws: usize,
        below: impl FnMut(usize) -> usize,
    ) -> Option<Vec<(u64, u64)>> {
        Some(self.drawn(quantiles, draws, below)?.into_iter().map(middle).collect())
    }

    /// Each draw's value of each of the quantiles, which are given in ascending order; as for [`Blocks::intervals`]. A draw of
    /// blocks without a value has none.
    #[must_use]
    pub fn drawn(
        mut self,
        quantiles: &[f64],
        draws: usize,
        mut below: impl FnMut(usize) -> usize,
    ) -> Option<Vec<Vec<u64>>> {
        debug_assert!(quantiles.is_sorted());
        if self.totals.iter().filter(|&&total| total > 0).count() < FEWEST_BLOCKS {
            return None;
        }
        self.sort();
        let blocks = self.totals.len();
        let mut drawn = vec![Vec::with_capacity(draws); quantiles.len()];
        let mut weights = vec![0u64; blocks];
        for _ in 0..draws {
            weights.fill(0);
            for _ in 0..blocks {
                weights[below(blocks)] += 1;
            }
            self.quantiles(&weights, quantiles, |index, ns| drawn[index].push(ns));
        }
        Some(drawn)
    }

    /// Largest value first, as [`Blocks::quantiles`] counts.
    fn sort(&mut self) {
        self.cells.sort_unstable_by_key(|cell| std::cmp::Reverse(cell.ns));
    }

    /// The quantiles of the sample with block `b` taken `weights[b]` times, largest quantile first; none where that
    /// sample is empty.
    fn quantiles(&self, weights: &[u64], quantiles: &[f64], mut found: impl FnMut(usize, u64)) {
        let total: u64 = self.totals.iter().zip(weights).map(|(n, w)| n * w).sum();
        if total == 0 {
            return;
        }
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

/// The draws' values without the smallest and the largest.
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
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Exp1};

    use super::*;
    use crate::stats::Histogram;

    fn exponential_blocks(seed: u64, blocks: usize, per_block: usize) -> Vec<Histogram> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = || -> f64 { Exp1.sample(&mut rng) };
        (0..blocks).map(|_| (0..per_block).map(|_| (draw() * 1e5) as u64).collect()).collect()
    }

    fn divided(blocks: &[Histogram]) -> Blocks {
        let mut all = Blocks::default();
        blocks.iter().for_each(|block| all.push(block.cells()));
        all
    }

    fn interval(blocks: &[Histogram], quantile: f64) -> Option<(u64, u64)> {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        divided(blocks).intervals(&[quantile], 300, |bound| rng.random_range(0..bound)).map(|all| all[0])
    }

    #[test]
    fn with_every_block_once_it_is_the_plain_quantile() {
        let blocks = exponential_blocks(3, 12, 500);
        let mut whole = Histogram::default();
        blocks.iter().for_each(|block| whole.merge(block));
        let quantiles = [0.5, 0.9, 0.99, 0.999];
        let mut seen = [0; 4];
        let mut divided = divided(&blocks);
        assert_eq!(divided.count(), 12 * 500);
        divided.sort();
        divided.quantiles(&[1; 12], &quantiles, |index, ns| seen[index] = ns);
        assert_eq!(seen, quantiles.map(|q| whole.quantile(q)));
    }

    /// The interval's promise: over many samples it holds the truth about 95 times in 100.
    #[test]
    fn intervals_cover_the_true_quantile() {
        let truth = 1e5 * -(1.0f64 - 0.9).ln();
        let trials = 60;
        let covered = (0..trials)
            .filter(|seed| {
                let (low, high) = interval(&exponential_blocks(*seed, 40, 100), 0.9).unwrap();
                (low as f64..=high as f64).contains(&truth)
            })
            .count();
        assert!((50..=trials as usize).contains(&covered), "{covered} of {trials}");
    }

    #[test]
    fn one_bad_block_widens_the_interval_and_equal_blocks_have_none() {
        let mut blocks = exponential_blocks(3, 40, 200);
        let width = |blocks: &[Histogram]| interval(blocks, 0.99).map(|(low, high)| high - low).unwrap();
        let calm = width(&blocks);
        blocks[7] = std::iter::repeat_n(10_000_000, 200).collect();
        assert!(width(&blocks) > 10 * calm);
        let same: Vec<Histogram> = (0..20).map(|_| std::iter::repeat_n(5, 100).collect()).collect();
        assert_eq!(interval(&same, 0.99), Some((5, 5)));
    }

    #[test]
    fn few_blocks_give_no_interval_and_empty_ones_count_for_none() {
        assert_eq!(interval(&exponential_blocks(1, 9, 10), 0.5), None);
        let mut blocks = vec![Histogram::default(); 20];
        assert_eq!(interval(&blocks, 0.5), None);
        blocks[..9].fill([5].into_iter().collect());
        assert_eq!(interval(&blocks, 0.5), None);
        blocks[9] = [5].into_iter().collect();
        assert_eq!(interval(&blocks, 0.5), Some((5, 5)));
    }
}
