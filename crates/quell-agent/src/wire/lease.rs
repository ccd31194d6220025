//! A leased workload: it is managed for as long as its caller is connected.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Class;

/// A workload to be leased.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Protect {
    /// Its name.
    pub name: String,
    /// Latency-critical or best-effort.
    pub class: Class,
    /// CPUs requested; for a latency-critical workload these are guaranteed.
    #[serde(default)]
    pub cpus: f64,
    /// At most this many CPUs; null: as many as there are.
    #[serde(default)]
    pub limit: Option<f64>,
    /// Does the request mean whole CPUs of its own?
    #[serde(default)]
    pub strict: bool,
    /// Selectors of its threads, one at least.
    #[serde(rename = "match")]
    pub selectors: Vec<Match>,
    /// Processes that the caller means, and that must still be there.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// The policy. A layer of that policy is joined; if there is none, one is added for as long as the lease lasts.
    pub policy: String,
    /// The policy's parameters; empty: those of the layer that is joined, else the usual ones.
    #[serde(default)]
    pub parameters: serde_json::Map<String, serde_json::Value>,
}

/// A selector of threads, as in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Match {
    /// A systemd unit.
    Unit(String),
    /// A cgroup's path below the root, with all below it.
    Cgroup(String),
    /// The id of a container, or its beginning, or its name.
    Container(String),
    /// The label of containers, as KEY=VALUE or KEY.
    Label(String),
    /// The uid of a pod.
    Pod(String),
    /// A process and its descendants.
    Pid(i32),
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its start, in clock ticks since the machine's.
    pub start: u64,
}

/// Another request of a leased workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// The leased workload's name.
    pub workload: String,
    /// CPUs requested from now on.
    pub cpus: f64,
}

/// The agent's answer: what it has set on a leased workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Protected {
    /// The workload's name.
    pub workload: String,
    /// The policies that own it, first to last.
    pub policies: Vec<String>,
    /// CPUs requested.
    pub cpus_requested: f64,
    /// Its threads.
    pub threads: u32,
    /// What was set on it so far; empty: its policies have not decided yet.
    pub set: Vec<String>,
    /// What is asked for and nothing acts on, and what the host refused to set; one line each.
    pub warnings: Vec<String>,
}
