//! Specification of an antagonist: plain data.

use serde::{Deserialize, Serialize};

use super::phase::Phase;
use crate::{Error, Result};

/// Above this many threads something is wrong.
const MAX_THREADS: u32 = 65_536;
/// A working set must be worth a walk.
const LEAST_WORKING_SET: u64 = 1 << 20;

/// The resource that an antagonist takes from its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// CPU time only: arithmetic in registers. A block is 16,384 steps of a generator (some tens of µs).
    Cpu,
    /// Memory bandwidth: `a = b + s·c` over arrays that no cache holds (STREAM's triad). A block moves 192 KiB.
    Stream,
    /// The last-level cache: dependent loads in random order over a working set of its size, shared by all threads.
    /// A block is 1,024 loads.
    Llc,
    /// A garbage collector: quiet, then every thread scans its part of a heap and marks each line. A block is 64 KiB.
    Collector,
    /// Processes that come and go: every thread starts one that writes to 16 pages and computes for half a block of
    /// [`Kind::Cpu`], and waits for its end. A block is a process.
    Forks,
    /// Wake-ups: two threads each send each other a byte and wait for the other's; one left over sends to itself. A block is 16
    /// bytes each way.
    Messages,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Cpu, Self::Stream, Self::Llc, Self::Collector, Self::Forks, Self::Messages];

    /// Is a working set what it is about?
    #[must_use]
    pub fn uses_memory(self) -> bool {
        matches!(self, Self::Stream | Self::Llc | Self::Collector)
    }

    /// Its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Stream => "stream",
            Self::Llc => "llc",
            Self::Collector => "collector",
            Self::Forks => "forks",
            Self::Messages => "messages",
        }
    }

    /// The working set to use where none is given, bytes over all threads, for a last-level cache of `llc_bytes`.
    #[must_use]
    pub fn usual_working_set(self, llc_bytes: u64) -> u64 {
        match self {
            Self::Cpu | Self::Forks | Self::Messages => 0,
            Self::Llc => llc_bytes.max(LEAST_WORKING_SET),
            // STREAM's rule: at least four times the cache.
            Self::Stream => (4 * llc_bytes).max(64 << 20),
            Self::Collector => (2 * llc_bytes).max(64 << 20),
        }
    }
}

/// One antagonist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AntagonistSpec {
    /// The resource.
    pub kind: Kind,
    /// Threads, each as busy as the others.
    pub threads: u32,
    /// Time after which it ends by itself, ns.
    pub duration_ns: u64,
    /// Memory over all threads, bytes; without effect for kinds that [use none](Kind::uses_memory).
    pub working_set_bytes: u64,
    /// Quiet and busy in turn; absent: always busy.
    pub phase: Option<Phase>,
}

impl AntagonistSpec {
    /// An antagonist with the usual working set for a cache of `llc_bytes`, for ten seconds; the collector works 30 %
    /// of every second.
    #[must_use]
    pub fn usual(kind: Kind, threads: u32, llc_bytes: u64) -> Self {
        Self {
            kind,
            threads,
            duration_ns: 10_000_000_000,
            working_set_bytes: kind.usual_working_set(llc_bytes),
            phase: (kind == Kind::Collector).then_some(Phase { period_ns: 1_000_000_000, duty: 0.3 }),
        }
    }

    /// Refuses impossible specifications.
    ///
    /// # Errors
    /// [`Error::Spec`] for the first field at fault.
    pub fn check(&self) -> Result<()> {
        if !(1..=MAX_THREADS).contains(&self.threads) {
            return Err(Error::Spec { field: "threads", problem: self.threads.to_string(), fix: "give 1 to 65536" });
        }
        if self.duration_ns == 0 {
            return Err(Error::Spec { field: "duration", problem: "0 s".into(), fix: "give some seconds" });
        }
        let least = LEAST_WORKING_SET.max(u64::from(self.threads) << 18);
        if self.kind.uses_memory() && !(least..1 << 42).contains(&self.working_set_bytes) {
            return Err(Error::Spec {
                field: "working set",
                problem: format!("{} bytes for {} threads", self.working_set_bytes, self.threads),
                fix: "give at least 1 MiB and 256 KiB a thread, at most 4 TiB",
            });
        }
        self.phase.map_or(Ok(()), Phase::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_antagonists_can_be_run_on_any_machine() {
        for kind in Kind::ALL {
            for llc in [0, 1 << 20, 105 << 20, 1 << 30] {
                AntagonistSpec::usual(kind, 2, llc).check().unwrap();
            }
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.name()));
        }
        assert_eq!(AntagonistSpec::usual(Kind::Llc, 2, 105 << 20).working_set_bytes, 105 << 20);
    }

    #[test]
    fn impossible_antagonists_are_refused() {
        let usual = AntagonistSpec::usual(Kind::Stream, 2, 1 << 20);
        for (bad, field) in [
            (AntagonistSpec { threads: 0, ..usual.clone() }, "threads"),
            (AntagonistSpec { duration_ns: 0, ..usual.clone() }, "duration"),
            (AntagonistSpec { working_set_bytes: 4096, ..usual.clone() }, "working set"),
            (AntagonistSpec { threads: 1000, working_set_bytes: 1 << 21, ..usual.clone() }, "working set"),
            (AntagonistSpec { phase: Some(Phase { period_ns: 1, duty: 2.0 }), ..usual.clone() }, "duty"),
        ] {
            let text = bad.check().unwrap_err().to_string();
            assert!(text.starts_with(field), "{text}");
        }
    }
}
