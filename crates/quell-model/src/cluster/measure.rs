//! What contention is measured by, and the class of contention by which a host is marked.

use serde::{Deserialize, Serialize};

/// What contention is measured by, the best first. Two hosts are compared within one measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Memory-buffer-full events a second, by hardware counters (snu2020 §5.3.1).
    #[default]
    Counters,
    /// By how many times its quiet latency memory answers later, less one: a canary's.
    Slowdown,
    /// CPU time for which workloads waited while others ran, as a part of the host's CPU time.
    Sharing,
    /// Queueing delay of the latency-critical threads, seconds.
    Delay,
}

impl Measure {
    /// All of them, the best first.
    pub const ALL: [Measure; 4] = [Measure::Counters, Measure::Slowdown, Measure::Sharing, Measure::Delay];
    /// Those of hosts without counters.
    pub const WITHOUT_COUNTERS: [Measure; 3] = [Measure::Slowdown, Measure::Sharing, Measure::Delay];

    /// Its place in [`Measure::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// For people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Measure::Counters => "buffer-full events/s",
            Measure::Slowdown => "slowdown of memory beyond 1",
            Measure::Sharing => "part of CPU time waited for others",
            Measure::Delay => "seconds of queueing delay",
        }
    }
}

/// A host's class of contention, for schedulers that know no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contended {
    /// Less than its peers, or not known.
    #[default]
    Quiet,
    /// About as much as its peers.
    Busy,
    /// More than its peers: others first.
    Contended,
}
