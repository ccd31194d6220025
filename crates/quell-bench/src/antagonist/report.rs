//! Work done by an antagonist.

use serde::{Deserialize, Serialize};

use super::spec::AntagonistSpec;

/// A point of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Time, CLOCK_MONOTONIC ns.
    pub at_ns: u64,
    /// Blocks done by then, by all threads.
    pub blocks: u64,
}

/// The result of one antagonist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AntagonistReport {
    /// The request.
    pub spec: AntagonistSpec,
    /// Start of the work, CLOCK_MONOTONIC ns: comparable with a load's report.
    pub started_ns: u64,
    /// Duration of the work, ns.
    pub elapsed_ns: u64,
    /// Blocks done.
    pub blocks: u64,
    /// Blocks per second.
    pub blocks_per_s: f64,
    /// Memory traffic as the program sees it, bytes per second; 0 for kinds that [use none](super::Kind::uses_memory).
    pub bytes_per_s: f64,
    /// CPUs that it used, from its threads' CPU time.
    pub cpus: f64,
    /// Blocks of each thread.
    pub thread_blocks: Vec<u64>,
    /// The longest time between two blocks of one thread, outside of quiet phases, ns: how long it was kept from running.
    #[serde(default)]
    pub longest_pause_ns: u64,
    /// Blocks over time, a point about every 100 ms, later where the antagonist itself was kept from running.
    pub timeline: Vec<Sample>,
}

impl AntagonistReport {
    /// Blocks per second between two instants (CLOCK_MONOTONIC ns), read off the timeline; `None` when the timeline
    /// does not cover them.
    #[must_use]
    pub fn blocks_per_s_between(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        let from = self.blocks_at(from_ns)?;
        let to = self.blocks_at(to_ns)?;
        (to_ns > from_ns).then(|| (to - from) / ((to_ns - from_ns) as f64 / 1e9))
    }

    /// Blocks done by an instant, on the straight line between two samples.
    fn blocks_at(&self, ns: u64) -> Option<f64> {
        let after = self.timeline.partition_point(|sample| sample.at_ns < ns);
        let right = self.timeline.get(after)?;
        if right.at_ns == ns {
            return Some(right.blocks as f64);
        }
        let left = self.timeline.get(after.checked_sub(1)?)?;
        let share = (ns - left.at_ns) as f64 / (right.at_ns - left.at_ns) as f64;
        Some(left.blocks as f64 + share * (right.blocks - left.blocks) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::antagonist::Kind;

    #[test]
    fn work_between_two_instants_is_read_off_the_timeline() {
        let sample = |at_ns, blocks| Sample { at_ns, blocks };
        let report = AntagonistReport {
            spec: AntagonistSpec::usual(Kind::Cpu, 1, 0),
            started_ns: 1_000_000_000,
            elapsed_ns: 3_000_000_000,
            blocks: 400,
            blocks_per_s: 0.0,
            bytes_per_s: 0.0,
            cpus: 1.0,
            thread_blocks: vec![400],
            longest_pause_ns: 0,
            timeline: vec![sample(1_000_000_000, 0), sample(2_000_000_000, 100), sample(4_000_000_000, 400)],
        };
        let between = |from, to| report.blocks_per_s_between(from, to);
        assert_eq!(between(1_000_000_000, 4_000_000_000), Some(400.0 / 3.0));
        assert_eq!(between(1_500_000_000, 3_000_000_000), Some((250.0 - 50.0) / 1.5));
        assert_eq!(between(2_000_000_000, 2_000_000_000), None);
        assert_eq!(between(999_999_999, 2_000_000_000), None);
        assert_eq!(between(2_000_000_000, 4_000_000_001), None);
    }
}
