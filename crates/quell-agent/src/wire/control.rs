//! The agent's one control call: `POST /v1/control`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lease::{Protect, Resize};
use super::prove::{Prove, Turn};

/// The latest version of [`Control`]; an agent refuses a newer one. Version 2 has leased workloads, version 3
/// experiments.
pub const CONTROL_VERSION: u32 = 3;

/// A request to the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// The version that has this command, at most [`CONTROL_VERSION`].
    pub version: u32,
    /// The request.
    pub command: Command,
}

impl Control {
    /// A request, with the first version that has it: earlier agents take it, too.
    #[must_use]
    pub fn new(command: Command) -> Control {
        let version = match command {
            Command::Off | Command::On | Command::OffWhileConnected => 1,
            Command::ProtectWhileConnected(_) | Command::Resize(_) => 2,
            Command::ProveWhileConnected(_) | Command::Turn(_) => 3,
        };
        Control { version, command }
    }
}

/// What an agent is asked to do. Variants are added, never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Put everything back now, and observe only, until [`Command::On`].
    Off,
    /// Work again. A lease of another caller still counts.
    On,
    /// A lease: as [`Command::Off`], until this connection ends. The answer is a line; its body goes on with empty lines for as
    /// long as the lease lasts.
    OffWhileConnected,
    /// A lease: this workload is managed like those of the configuration, until this connection ends. The answer is a line, a
    /// [`Protected`](super::Protected), as soon as it is; the body goes on as that of `off-while-connected`.
    ProtectWhileConnected(Protect),
    /// Another number of CPUs for a leased workload. The answer is a [`Protected`](super::Protected).
    Resize(Resize),
    /// A lease: an experiment of this caller's, one at a time. It also ends when the configuration is read again, and when
    /// the agent is switched off. The body goes on as that of `off-while-connected`.
    ProveWhileConnected(Prove),
    /// The next turn of the caller's experiment. The answer comes when its first plans are in force.
    Turn(Turn),
}

impl Command {
    /// Does it last as long as its connection?
    #[must_use]
    pub fn is_lease(&self) -> bool {
        matches!(self, Command::OffWhileConnected | Command::ProtectWhileConnected(_) | Command::ProveWhileConnected(_))
    }
}

/// The agent's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Controlled {
    /// Is it off now? Null: it works.
    pub off: Option<Off>,
    /// Number of values that were put back.
    pub put_back: u64,
    /// What could not be put back, one line each.
    pub left: Vec<String>,
}

/// An agent that is switched off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Off {
    /// Since when, on the host's monotonic clock, in nanoseconds.
    pub since_ns: u64,
    /// By whom: users and their processes, one each.
    pub by: Vec<String>,
    /// Does it last only while a caller is connected?
    pub leased: bool,
}

/// Do all settings stand? `GET /v1/verify`; read back at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// Number of workloads whose settings were read.
    pub workloads: u64,
    /// Number of their threads.
    pub threads: u64,
    /// What does not stand, one line each; empty: everything stands.
    pub differences: Vec<String>,
}
