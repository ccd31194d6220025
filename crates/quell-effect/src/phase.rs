//! A stretch of time in which a service was measured, in slices.

use std::ops::Range;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantile::{LEVELS, needed};

/// Blocks of a phase for the bootstrap: fewer leave too much to their number, and shorter ones would part what belongs together
/// (Künsch 1989, <https://doi.org/10.1214/aos/1176347265>).
const BLOCKS: usize = 12;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Latency, from the service's own histogram.
    Histogram,
    /// Latency of a probe's requests, from when they were to be sent.
    Probe,
    /// How long a thread of the service waited for a CPU before it ran: the mean over a short interval. No latency: what a request
    /// takes beside that is not in it.
    QueueingDelay,
}

impl Measure {
    /// Its name before a quantile; a latency has none.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Measure::Histogram | Measure::Probe => "",
            Measure::QueueingDelay => "queueing delay ",
        }
    }

    /// What its values are.
    #[must_use]
    pub fn values(self) -> &'static str {
        match self {
            Measure::Histogram => "requests",
            Measure::Probe => "requests of a probe",
            Measure::QueueingDelay => "intervals of its threads",
        }
    }

    /// Two values that are less apart, ns, are one: a probe is itself woken late by that much, and a thread's waiting includes the
    /// kernel's own switch.
    #[must_use]
    pub fn resolution_ns(self) -> u64 {
        match self {
            Measure::Histogram => 1,
            Measure::Probe => 10_000,
            Measure::QueueingDelay => 2_000,
        }
    }
}

/// What was measured between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Its beginning, CLOCK_MONOTONIC ns.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// Values, ns, each with its count.
    pub cells: Vec<(u64, u64)>,
}

impl Slice {
    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.cells.iter().map(|(_, count)| count).sum()
    }
}

/// All that was measured in a stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Of what kind.
    pub measure: Measure,
    /// The slices, in their order.
    pub slices: Vec<Slice>,
    /// Bounds of the source's buckets, ns, ascending; none where it has single values.
    pub edges: Vec<u64>,
}

impl Phase {
    /// Nothing yet.
    #[must_use]
    pub fn new(measure: Measure, edges: Vec<u64>) -> Phase {
        Phase { measure, slices: Vec::new(), edges }
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.slices.iter().map(Slice::count).sum()
    }

    /// Its length without gaps, s.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.slices.iter().map(|slice| slice.to_ns.saturating_sub(slice.from_ns)).sum::<u64>() as f64 / 1e9
    }

    /// Values per second; 0 without any time.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 { self.count() as f64 / seconds } else { 0.0 }
    }

    /// The quantiles that are sound, ascending: each with its value, ns.
    #[must_use]
    pub fn quantiles(&self) -> Vec<(f64, u64)> {
        let (cells, count) = (self.sorted(), self.count());
        let sound = LEVELS.into_iter().filter(|&level| needed(level) <= count);
        sound.map(|level| (level, at(&cells, count, level))).collect()
    }

    /// The value at a quantile: the smallest that this share of all values does not exceed, ns; 0 where nothing was measured.
    #[must_use]
    pub fn at(&self, quantile: f64) -> u64 {
        at(&self.sorted(), self.count(), quantile)
    }

    fn sorted(&self) -> Vec<(u64, u64)> {
        let mut cells: Vec<(u64, u64)> = self.slices.iter().flat_map(|slice| slice.cells.iter().copied()).collect();
        cells.sort_unstable();
        cells
    }

    /// Without what was measured within a time of its beginning: a change settles, and requests from before it end.
    #[must_use]
    pub fn after(&self, settling: Duration) -> Phase {
        let begun = self.slices.first().map_or(0, |slice| slice.from_ns);
        let from = begun.saturating_add(u64::try_from(settling.as_nanos()).unwrap_or(u64::MAX));
        let slices = self.slices.iter().filter(|slice| slice.from_ns >= from).cloned().collect();
        Phase { slices, edges: self.edges.clone(), ..*self }
    }

    /// Its first and its second half, by time.
    #[must_use]
    pub fn halves(&self) -> [Phase; 2] {
        let ends = self.slices.first().zip(self.slices.last());
        let middle = ends.map_or(0, |(first, last)| first.from_ns + last.to_ns.saturating_sub(first.from_ns) / 2);
        let at = self.slices.partition_point(|slice| slice.from_ns < middle);
        [self.part(0..at), self.part(at..self.slices.len())]
    }

    /// In blocks of about the same length: whole slices next to each other.
    #[must_use]
    pub fn blocks(&self) -> Vec<Phase> {
        let (slices, blocks) = (self.slices.len(), BLOCKS.min(self.slices.len()));
        let block = |number: usize| self.part(number * slices / blocks..(number + 1) * slices / blocks);
        (0..blocks).map(block).collect()
    }

    fn part(&self, slices: Range<usize>) -> Phase {
        Phase { slices: self.slices[slices].to_vec(), edges: self.edges.clone(), ..*self }
    }

    /// Is this value only known to be beyond the last bucket's bound?
    #[must_use]
    pub fn is_beyond(&self, ns: u64) -> bool {
        self.edges.last().is_some_and(|last| ns > *last)
    }

    /// Do both values lie in one bucket?
    #[must_use]
    pub fn is_one_bucket(&self, one: u64, other: u64) -> bool {
        let bucket = |ns: u64| self.edges.partition_point(|edge| *edge < ns);
        !self.edges.is_empty() && bucket(one) == bucket(other)
    }
}

/// The value of this rank in sorted cells.
fn at(cells: &[(u64, u64)], count: u64, quantile: f64) -> u64 {
    let rank = ((quantile * count as f64).ceil() as u64).max(1);
    let mut upto = 0;
    let reaches = |(_, count): &&(u64, u64)| {
        upto += count;
        upto >= rank
    };
    cells.iter().find(reaches).map_or(0, |(ns, _)| *ns)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub const MS: u64 = 1_000_000;

    /// A slice each 100 ms from a time on, with these values.
    pub fn phase(measure: Measure, from_ms: u64, slices: impl IntoIterator<Item = Vec<u64>>) -> Phase {
        let slice = |(number, values): (u64, Vec<u64>)| Slice {
            from_ns: (from_ms + 100 * number) * MS,
            to_ns: (from_ms + 100 * number + 100) * MS,
            cells: values.into_iter().map(|ns| (ns, 1)).collect(),
        };
        Phase { slices: (0..).zip(slices).map(slice).collect(), ..Phase::new(measure, Vec::new()) }
    }

    #[test]
    fn only_sound_quantiles_are_there() {
        let of = |slices: usize| phase(Measure::Probe, 0, vec![(1..=10).map(|ms| ms * MS).collect(); slices]);
        let levels = |slices| of(slices).quantiles().iter().map(|(level, _)| *level).collect::<Vec<_>>();
        assert_eq!(levels(1), [0.0; 0]);
        assert_eq!(levels(9), [0.5]);
        assert_eq!(levels(99), [0.5, 0.9]);
        assert_eq!(levels(100), [0.5, 0.9, 0.99]);
        assert_eq!((of(100).count(), of(100).seconds(), of(100).per_second()), (1_000, 10.0, 100.0));
    }

    #[test]
    fn what_was_measured_while_the_change_settled_is_left_out() {
        let phase = phase(Measure::Probe, 500, (1..=10).map(|ms| vec![ms * MS]));
        let left = |settling| phase.after(Duration::from_millis(settling)).count();
        assert_eq!([0, 1, 100, 101, 900, 901, u64::MAX].map(left), [10, 9, 9, 8, 1, 0, 0]);
    }

    #[test]
    fn buckets_bound_what_is_known() {
        let phase = Phase { edges: vec![MS, 5 * MS], ..Phase::new(Measure::Histogram, Vec::new()) };
        assert!(phase.is_beyond(5 * MS + 1) && !phase.is_beyond(5 * MS));
        assert!(phase.is_one_bucket(MS + 1, 5 * MS) && !phase.is_one_bucket(MS, MS + 1));
        assert!(!Phase::new(Measure::Probe, Vec::new()).is_one_bucket(1, 1), "single values have none");
    }

    proptest! {
        #[test]
        fn halves_and_blocks_lose_nothing(counts in prop::collection::vec(0usize..5, 0..90)) {
            let phase = phase(Measure::Probe, 7, counts.iter().map(|count| vec![MS; *count]));
            let [first, second] = phase.halves();
            prop_assert_eq!(first.count() + second.count(), phase.count());
            prop_assert!(first.slices.len().abs_diff(second.slices.len()) <= 1);
            prop_assert_eq!(phase.blocks().iter().map(Phase::count).sum::<u64>(), phase.count());
            prop_assert_eq!(phase.blocks().len(), phase.slices.len().min(12));
        }
    }
}
