//! What stands beside what was set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of a workload that another program changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Overridden {
    /// Number of its threads with another value; zero: a value of its cgroups alone.
    pub threads: u32,
    /// Number of its threads.
    pub of: u32,
    /// When it was first found so, on the host's monotonic clock, in nanoseconds.
    pub since_ns: u64,
    /// The differences, one line each, the commonest first.
    pub differences: Vec<String>,
    /// Does Quell set them again, and when?
    pub then: String,
}

/// Kind of a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RemarkKind {
    /// Its cgroups are threaded: membership is by thread.
    Threaded,
    /// A cgroup above allows it less than it asks for.
    Limited,
    /// Its cgroup has no real-time budget.
    NoRealTimeBudget,
    /// Idle-only counts within its session or cgroup alone.
    NotIdleOnly,
    /// Processes of it export how long their requests wait.
    Exports,
}

impl RemarkKind {
    /// In a word or a few.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RemarkKind::Threaded => "threaded",
            RemarkKind::Limited => "limited",
            RemarkKind::NoRealTimeBudget => "no real-time budget",
            RemarkKind::NotIdleOnly => "not idle-only",
            RemarkKind::Exports => "exports",
        }
    }

    /// Does it mean that the workload has less than the configuration asks for?
    #[must_use]
    pub fn is_bad(self) -> bool {
        !matches!(self, RemarkKind::Threaded | RemarkKind::Exports)
    }
}

/// A fact about a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remark {
    /// Its kind.
    pub about: RemarkKind,
    /// In words, with the fix where there is one.
    pub text: String,
}

/// A configuration that was refused when it was to be read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotReloaded {
    /// When, on the host's monotonic clock, in nanoseconds.
    pub since_ns: u64,
    /// Its errors, one a line.
    pub why: String,
}

/// A machine that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stale {
    /// Time of the last look that succeeded, on the host's monotonic clock, in nanoseconds.
    pub since_ns: u64,
    /// The failure.
    pub why: String,
}
