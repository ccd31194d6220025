//! What workloads waited for.

use quell_gap::attribution::Cause;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The time that a workload's threads were runnable and did not run, by cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    /// All of it since the agent found the workload, in nanoseconds of its threads.
    pub waited_ns: u64,
    /// What of it has no cause yet: the next burst of tracing says.
    pub unsettled_ns: u64,
    /// The rest, by cause; each only grows.
    pub by: Vec<WaitedFor>,
    /// The last seconds.
    pub lately: WaitedLately,
}

/// One cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitedFor {
    /// `own-threads`, `own-limit`, `workload`, `kernel`, `unmanaged`, `interrupts`, `steal`, `idle-cpu`, `other` or `unknown`.
    pub cause: String,
    /// The name of the workload, of the kernel's threads or of the cgroup; empty where the cause says all.
    pub by: String,
    /// The time, in nanoseconds.
    pub waited_ns: u64,
    /// It is at least this …
    pub at_least_ns: u64,
    /// … and at most this, in 19 of 20.
    pub at_most_ns: u64,
}

impl WaitedFor {
    /// For people.
    #[must_use]
    pub fn words(&self) -> &str {
        let cause = Cause::ALL.into_iter().find(|cause| cause.label() == self.cause);
        match cause {
            Some(cause) if self.by.is_empty() => cause.words(),
            None if self.by.is_empty() => &self.cause,
            _ => &self.by,
        }
    }
}

/// How causes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// Traced.
    Traced,
    /// By the shares of the latest burst of tracing.
    Estimated,
    /// Not at all.
    Unknown,
}

/// The last seconds of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitedLately {
    /// Their length, in nanoseconds.
    pub window_ns: u64,
    /// The time that its threads waited, in nanoseconds.
    pub waited_ns: u64,
    /// How the causes are known.
    pub known: Known,
    /// The causes, the largest first.
    pub by: Vec<WaitedFor>,
}

/// How attribution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttributionState {
    /// It traces when it should.
    Works,
    /// It traces less than it should, to keep its bound.
    Limited,
    /// It cannot trace: all causes are unknown.
    Unavailable,
}

/// How the agent finds out what workloads wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// How it stands.
    pub state: AttributionState,
    /// Why it is limited or unavailable.
    pub why: Option<String>,
    /// CPU time that it used, in seconds; loading included.
    pub cpu_seconds: f64,
    /// The part of one CPU that it may use.
    pub cost_bound: f64,
    /// Bursts of tracing so far.
    pub bursts: u64,
}
