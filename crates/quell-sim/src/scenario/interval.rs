//! Intervals of latency quantiles: what they could have been by chance.
//!
//! Of several repetitions: Student's t over their quantiles, for they are independent. Of a single run: the block
//! bootstrap ([`quell_report::stats`]), for neighbouring requests are not.

use quell_model::Nanos;
use quell_report::stats::Blocks;
use serde::Serialize;

use super::Observed;
use crate::Stream;
use crate::math;
use crate::workload::Latencies;

/// A quantile that is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The share of latencies that it is not below, 0–1.
    pub share: f64,
    /// From this many latencies on it means something: ten are beyond it.
    pub least: u64,
}

/// p50, p90, p99, p99.9, p99.99.
pub const QUANTILES: [Quantile; 5] = [
    Quantile { share: 0.5, least: 20 },
    Quantile { share: 0.9, least: 100 },
    Quantile { share: 0.99, least: 1_000 },
    Quantile { share: 0.999, least: 10_000 },
    Quantile { share: 0.9999, least: 100_000 },
];

/// 95 % intervals (low, high) of [`QUANTILES`]; none where there is too little to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Intervals {
    /// Of p50.
    pub p50: Option<(Nanos, Nanos)>,
    /// Of p90.
    pub p90: Option<(Nanos, Nanos)>,
    /// Of p99.
    pub p99: Option<(Nanos, Nanos)>,
    /// Of p99.9.
    pub p999: Option<(Nanos, Nanos)>,
    /// Of p99.99.
    pub p9999: Option<(Nanos, Nanos)>,
}

impl Intervals {
    /// In the order of [`QUANTILES`].
    #[must_use]
    pub fn all(&self) -> [Option<(Nanos, Nanos)>; 5] {
        [self.p50, self.p90, self.p99, self.p999, self.p9999]
    }
}

/// Blocks of time in a run.
pub const BLOCKS: u64 = 20;
/// Draws for one interval.
const DRAWS: usize = 200;
/// The random stream of all draws.
const SEED: u64 = 0x0071_7565_6c6c;

/// Latencies of one block of time: each cell's latency, ns, and count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block(Vec<(u64, u64)>);

impl Block {
    pub(super) fn add(&mut self, latencies: &Latencies) {
        self.0.extend(latencies.cells().map(|(latency, count)| (latency.0, count)));
    }
}

/// The intervals of workload `at`; none if nothing was kept to compute them from.
pub(super) fn of(runs: &[Observed], at: usize) -> Option<Intervals> {
    let [p50, p90, p99, p999, p9999] = match runs {
        [] => return None,
        [run] => of_blocks(run.blocks.get(at)?, at as u64),
        _ => QUANTILES.map(|quantile| {
            let all = runs.iter().map(|run| &run.workloads[at].latencies);
            let is_enough = all.clone().all(|latencies| latencies.count() >= quantile.least);
            let each = all.map(|latencies| latencies.quantile(quantile.share).0 as f64);
            is_enough.then(|| student(&each.collect::<Vec<_>>()))
        }),
    };
    Some(Intervals { p50, p90, p99, p999, p9999 })
}

/// Student's interval around the mean of at least two values.
fn student(values: &[f64]) -> (Nanos, Nanos) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0);
    let half = student_quantile(values.len() - 1) * math::sqrt(variance / count);
    (Nanos(math::nanos(mean - half)), Nanos(math::nanos(mean + half)))
}

/// The 97.5 % quantile of Student's distribution.
fn student_quantile(degrees: usize) -> f64 {
    const FIRST: [f64; 12] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179];
    // Beyond the table: Cornish and Fisher's expansion around the normal distribution's 1.96.
    let normal: f64 = 1.959_964;
    let cube = normal * normal * normal;
    let more = (cube + normal) / 4.0;
    let yet_more = (5.0 * cube * normal * normal + 16.0 * cube + 3.0 * normal) / 96.0;
    let degrees_of = degrees as f64;
    let beyond = || normal + more / degrees_of + yet_more / (degrees_of * degrees_of);
    FIRST.get(degrees.saturating_sub(1)).copied().unwrap_or_else(beyond)
}

/// The block bootstrap, with a random stream of the simulator's.
fn of_blocks(blocks: &[Block], stream: u64) -> [Option<(Nanos, Nanos)>; 5] {
    let mut sample = Blocks::default();
    blocks.iter().for_each(|block| sample.push(block.0.iter().copied()));
    let all = sample.count();
    let mut stream = Stream::new(SEED, stream);
    let below = |bound: usize| stream.below(bound as u32) as usize;
    let found = sample.intervals(&QUANTILES.map(|quantile| quantile.share), DRAWS, below);
    let mut intervals = [None; 5];
    for ((interval, quantile), (low, high)) in intervals.iter_mut().zip(&QUANTILES).zip(found.unwrap_or_default()) {
        *interval = (all >= quantile.least).then_some((Nanos(low), Nanos(high)));
    }
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential_block(stream: &mut Stream, mean: f64, count: usize) -> Block {
        let mut latencies: Vec<u64> = (0..count).map(|_| stream.exponential(mean) as u64).collect();
        latencies.sort_unstable();
        Block(latencies.into_iter().map(|latency| (latency, 1)).collect())
    }

    #[test]
    fn repetitions_have_students_interval() {
        // Mean 3, standard deviation √2.5, t = 2.776: 3 ± 1.963.
        assert_eq!(student(&[1.0, 2.0, 3.0, 4.0, 5.0].map(|v| v * 1e6)), (Nanos(1_037_072), Nanos(4_962_928)));
        assert_eq!(student(&[7.0, 7.0, 7.0]), (Nanos(7), Nanos(7)));
        // What is above cannot reach below nothing.
        assert_eq!(student(&[0.0, 10.0]).0, Nanos(0));
        for (degrees, quantile) in [(1, 12.706), (12, 2.179), (13, 2.160), (30, 2.042), (1000, 1.962)] {
            assert!((student_quantile(degrees) - quantile).abs() < 1e-3, "{degrees}");
        }
    }

    /// The promise: over many samples the interval holds the truth about 95 times in 100.
    #[test]
    fn blocks_cover_the_true_quantiles() {
        let truth = [0.5, 0.9, 0.99].map(|share: f64| -1e6 * math::ln(1.0 - share));
        let mut covered = [0; 3];
        for trial in 0..100 {
            let mut stream = Stream::new(11, trial);
            let blocks: Vec<Block> = (0..BLOCKS).map(|_| exponential_block(&mut stream, 1e6, 300)).collect();
            let intervals = of_blocks(&blocks, 0);
            for (at, truth) in truth.iter().enumerate() {
                let (low, high) = intervals[at].unwrap();
                covered[at] += u32::from((low.0 as f64..=high.0 as f64).contains(truth));
            }
            // 6,000 latencies are too few for the next one.
            assert_eq!(intervals[3], None);
        }
        assert!(covered.iter().all(|covered| (83..=100).contains(covered)), "{covered:?}");
    }

    #[test]
    fn one_bad_block_widens_the_interval_and_equal_blocks_have_none() {
        let mut stream = Stream::new(5, 0);
        let mut blocks: Vec<Block> = (0..BLOCKS).map(|_| exponential_block(&mut stream, 1e6, 200)).collect();
        let width = |blocks: &[Block]| of_blocks(blocks, 0)[2].map(|(low, high)| (high - low).0).unwrap();
        let calm = width(&blocks);
        blocks[3] = Block(vec![(100_000_000, 200)]);
        assert!(width(&blocks) > 10 * calm);
        let same = vec![Block(vec![(5, 100)]); BLOCKS as usize];
        assert_eq!(of_blocks(&same, 0)[2], Some((Nanos(5), Nanos(5))));
    }

    #[test]
    fn too_little_has_no_interval() {
        let mut blocks = vec![Block::default(); BLOCKS as usize];
        blocks[..9].fill(Block(vec![(5, 1000)]));
        assert_eq!(of_blocks(&blocks, 0), [None; 5]);
        blocks[9] = Block(vec![(5, 1000)]);
        assert_eq!(of_blocks(&blocks, 0)[3], Some((Nanos(5), Nanos(5))));
    }
}
