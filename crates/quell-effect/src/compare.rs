//! One phase against another.
//!
//! Whole blocks of each phase are drawn with replacement and the ratio of the two quantiles taken from each pair of draws; the
//! middle 95 % of those are the interval (block bootstrap: Künsch 1989, <https://doi.org/10.1214/aos/1176347265>; Efron and
//! Tibshirani 1993, chapter 8). It is widened for the small number of blocks, and where neighbouring blocks are alike, as it
//! would be for the mean of a series with that autocorrelation. Two phases stand one after the other: what else changed meanwhile is in the ratio as well. An
//! experiment that alternates ([`crate::prove`]) takes that out.

use quell_report::stats::{Blocks, CONFIDENCE};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::phase::Phase;
use crate::quantile::highest_sound;

/// Draws of each phase.
const DRAWS: usize = 1_000;
/// The random stream of the draws: equal phases have equal intervals.
const SEED: u64 = 0x6566_6665_6374;
/// A change by less than this factor is none that anyone needs to know of.
const LEAST_FACTOR: f64 = 1.05;

/// What a comparison found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// It is lower than before.
    Lower,
    /// It is higher than before.
    Higher,
    /// No change beyond what chance has, and what the source can resolve.
    NoChange,
    /// A phase is too short, or has too few values.
    TooFew,
}

/// A quantile in two phases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The quantile: the wanted one, or the highest below it that both phases are large enough for.
    pub quantile: f64,
    /// Before, ns.
    pub before_ns: u64,
    /// After, ns.
    pub after_ns: u64,
    /// After over before.
    pub ratio: f64,
    /// Where the ratio lies in 95 of 100 such comparisons; absent with fewer than ten blocks that have values.
    pub interval: Option<(f64, f64)>,
    /// In a word.
    pub finding: Finding,
}

/// Compares two phases at a quantile, or at the highest below it that is sound in both; None where not even the median is.
#[must_use]
pub fn compare(before: &Phase, after: &Phase, wanted: f64) -> Option<Comparison> {
    let quantile = highest_sound(wanted, before.count().min(after.count()))?;
    let [before_ns, after_ns] = [before, after].map(|phase| phase.at(quantile));
    let ratio = ratio(before_ns, after_ns);
    let interval = interval(before, after, quantile);
    let is_resolved = before_ns.abs_diff(after_ns) >= before.measure.resolution_ns()
        && ratio.max(1.0 / ratio) >= LEAST_FACTOR
        && !before.is_one_bucket(before_ns, after_ns);
    let finding = match interval {
        None => Finding::TooFew,
        Some((_, high)) if high < 1.0 && is_resolved => Finding::Lower,
        Some((low, _)) if low > 1.0 && is_resolved => Finding::Higher,
        Some(_) => Finding::NoChange,
    };
    Some(Comparison { quantile, before_ns, after_ns, ratio, interval, finding })
}

/// A duration of nothing counts as a nanosecond.
fn ratio(before: u64, after: u64) -> f64 {
    after.max(1) as f64 / before.max(1) as f64
}

fn interval(before: &Phase, after: &Phase, quantile: f64) -> Option<(f64, f64)> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let blocks = [before, after].map(Phase::blocks);
    let mut draws = |blocks: &[Phase]| {
        let mut sample = Blocks::default();
        for block in blocks {
            sample.push(block.slices.iter().flat_map(|slice| slice.cells.iter().copied()));
        }
        let drawn = sample.drawn(&[quantile], DRAWS, |bound| random.random_range(0..bound));
        drawn.and_then(|mut drawn| drawn.pop())
    };
    let drawn = [draws(&blocks[0])?, draws(&blocks[1])?];
    let ratios = drawn[0].iter().zip(&drawn[1]).map(|(before, after)| ratio(*before, *after).ln());
    let mut ratios: Vec<f64> = ratios.collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let at = |share: f64| ratios.get((share * ratios.len().checked_sub(1)? as f64).round() as usize).copied();
    let middle = ratio(before.at(quantile), after.at(quantile)).ln();
    let wider = wider(&blocks, quantile);
    let end = |share: f64| Some((middle + wider * (at(share)? - middle)).exp());
    end(tail).zip(end(1.0 - tail))
}

/// The factor by which the interval is widened.
fn wider(blocks: &[Vec<Phase>; 2], quantile: f64) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    for blocks in blocks {
        let values = blocks.iter().filter(|block| block.count() > 0);
        let values: Vec<f64> = values.map(|block| (block.at(quantile).max(1) as f64).ln()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        products += values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    }
    let count = blocks.iter().map(Vec::len).sum::<usize>() as f64 / 2.0;
    let found = if squares > 0.0 { products / squares } else { 0.0 };
    // Few values have less of it than their series (Kendall 1954).
    let correlation = (found + (1.0 + 3.0 * found) / count).clamp(0.0, 0.9);
    // Student's distribution against the normal one, by the first term of Cornish and Fisher's expansion.
    let student = 1.0 + 1.21 / (2.0 * count - 2.0);
    student * (count / (count - 1.0) * (1.0 + correlation) / (1.0 - correlation)).sqrt()
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, Exp1, StandardNormal};

    use super::*;
    use crate::phase::Measure;
    use crate::phase::tests::{MS, phase};

    /// Exponential values with this mean, 30 in each of a number of slices.
    fn exponential(seed: u64, mean: f64, slices: usize) -> Phase {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = || {
            let value: f64 = Exp1.sample(&mut random);
            (value * mean) as u64
        };
        let slices: Vec<Vec<u64>> = (0..slices).map(|_| (0..30).map(|_| draw()).collect()).collect();
        phase(Measure::Probe, 0, slices)
    }

    #[test]
    fn a_change_is_found_in_its_direction() {
        let (slow, fast) = (exponential(1, 6e6, 100), exponential(2, 4e5, 100));
        let lower = compare(&slow, &fast, 0.99).unwrap();
        assert_eq!((lower.finding, lower.quantile), (Finding::Lower, 0.99));
        let (low, high) = lower.interval.unwrap();
        assert!(low < lower.ratio && lower.ratio < high && low < 1.0 / 15.0 && 1.0 / 15.0 < high, "{lower:?}");
        assert_eq!(compare(&fast, &slow, 0.99).unwrap().finding, Finding::Higher);
    }

    /// Values whose level at each depends on that before it, alike over some slices.
    fn dependent(seed: u64) -> Phase {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut level = 0.0;
        let mut draw = || {
            let (normal, noise): (f64, f64) = (StandardNormal.sample(&mut random), Exp1.sample(&mut random));
            level = 0.99 * level + 0.07 * normal;
            (f64::exp(level) * (0.2 + noise) * 1e6) as u64
        };
        let slices: Vec<Vec<u64>> = (0..50).map(|_| (0..30).map(|_| draw()).collect()).collect();
        phase(Measure::Probe, 0, slices)
    }

    /// The promise: of pairs without a difference, about one in twenty is taken for one; of those whose blocks are alike, one in
    /// ten. Without the widening these would be one in four.
    #[test]
    fn equal_phases_are_mostly_no_change() {
        let wrong = |of: fn(u64) -> Phase| {
            let is_wrong =
                |seed: &u64| compare(&of(2 * seed), &of(2 * seed + 1), 0.9).unwrap().finding != Finding::NoChange;
            (0..80).filter(is_wrong).count()
        };
        let (independent, dependent) = (wrong(|seed| exponential(seed, 1e6, 50)), wrong(dependent));
        assert!(independent <= 10 && dependent <= 14, "{independent} and {dependent} of 80");
    }

    #[test]
    fn the_highest_quantile_that_both_are_large_enough_for_is_compared() {
        for (slices, other, quantile) in [(40, 40, Some(0.99)), (40, 33, Some(0.9)), (3, 40, Some(0.5)), (0, 40, None)]
        {
            let found = compare(&exponential(1, 1e6, slices), &exponential(2, 1e6, other), 0.99);
            assert_eq!(found.map(|found| found.quantile), quantile, "{slices} {other}");
        }
    }

    #[test]
    fn few_blocks_have_no_interval_and_no_verdict() {
        let short = compare(&exponential(1, 6e6, 9), &exponential(2, 1e3, 100), 0.9).unwrap();
        assert_eq!((short.interval, short.finding), (None, Finding::TooFew));
    }

    #[test]
    fn what_the_source_cannot_resolve_is_no_change() {
        let constant = |measure, ns: u64| phase(measure, 0, vec![vec![ns; 10]; 100]);
        let finding = |measure, before, after| {
            compare(&constant(measure, before), &constant(measure, after), 0.9).unwrap().finding
        };
        assert_eq!(finding(Measure::QueueingDelay, 2_000, 3_999), Finding::NoChange, "less than a switch");
        assert_eq!(finding(Measure::QueueingDelay, 2_000, 5_000), Finding::Higher);
        assert_eq!(finding(Measure::Probe, MS, MS + MS / 25), Finding::NoChange, "4 %");
        assert_eq!(finding(Measure::Probe, MS, MS - MS / 10), Finding::Lower);
        let bucket = |ns| Phase { edges: vec![MS, 5 * MS, 10 * MS], ..constant(Measure::Histogram, ns) };
        let buckets = |before, after| compare(&bucket(before), &bucket(after), 0.9).unwrap().finding;
        assert_eq!(buckets(2 * MS, 4 * MS), Finding::NoChange, "one bucket");
        assert_eq!(buckets(2 * MS, 6 * MS), Finding::Higher);
    }
}
