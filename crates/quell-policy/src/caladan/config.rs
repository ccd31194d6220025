//! The parameters of `caladan`.

use std::collections::BTreeMap;

use quell_model::{BytesPerSecond, Nanos};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::cores;

/// How often the controllers and the allocator run (caladan-osdi20 §5.2: "once every 10 μs").
pub const INTERVAL: Nanos = Nanos::from_micros(10);

/// The queueing delay from which on a task gets another core (App. A: "Caladan's default 10 μs").
pub const THRESH_QD: Nanos = Nanos::from_micros(10);

/// The parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaladanConfig {
    /// How often the controllers and the allocator run.
    pub interval: Nanos,
    /// THRESH_QD of every task that has none of its own.
    pub thresh_qd: Nanos,
    /// THRESH_HT of every LC task that has none of its own; None: infinite, as App. A recommends for service times
    /// under 5 μs.
    pub thresh_ht: Option<Nanos>,
    /// THRESH_BW, "set once per machine to a bandwidth just low enough to avoid the exponential increase in memory
    /// access latency", 70–80 % of its capacity (App. A); None: the controller is off.
    pub thresh_bw: Option<BytesPerSecond>,
    /// The same as a multiple of the memory's quiet latency, for machines that do not count bytes: the "increase in
    /// memory access latency" itself. Asked only where THRESH_BW is not set or the bandwidth is not measured; None: never.
    #[serde(deserialize_with = "above_one")]
    pub thresh_slowdown: Option<f64>,
    /// Does the host act by itself between two rounds: guaranteed cores at a wake-up, succession at a yield, limits?
    /// Without, as in the paper, everything waits for the scheduler's polling.
    pub rules: bool,
    /// Is a task granted as many cores in a round as its delay is multiples of its THRESH_QD? In the paper it is one
    /// (Algorithm 1), so that a task that needs many of them waits for as many rounds.
    pub many_a_round: bool,
    /// Is data that lies unread in a task's sockets part of its queueing delay, as the network's queues are in the paper
    /// (§5.2.1)? For programs of which any thread may read any socket; of others no core helps where a thread is busy.
    pub sockets: bool,
    /// Thresholds of single tasks, by workload name.
    pub tasks: BTreeMap<String, Thresholds>,
}

/// One task's thresholds, where they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// THRESH_QD.
    pub thresh_qd: Option<Nanos>,
    /// THRESH_HT.
    pub thresh_ht: Option<Nanos>,
}

/// Memory that is quiet has 1: with that or less, best-effort tasks would never have a core.
fn above_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Option::deserialize(deserializer)? {
        Some(times) if !(times > 1.0 && f64::is_finite(times)) => {
            Err(D::Error::custom(format!("a thresh_slowdown of {times}: give a number above 1, as in 1.3")))
        }
        times => Ok(times),
    }
}

impl CaladanConfig {
    /// A task's own thresholds, or everybody's.
    pub(super) fn thresholds(&self, task: &str) -> cores::Thresholds {
        let own = self.tasks.get(task).copied().unwrap_or_default();
        cores::Thresholds {
            qd: own.thresh_qd.unwrap_or(self.thresh_qd),
            ht: own.thresh_ht.or(self.thresh_ht).unwrap_or(Nanos::MAX),
        }
    }
}

impl Default for CaladanConfig {
    fn default() -> CaladanConfig {
        CaladanConfig {
            interval: INTERVAL,
            thresh_qd: THRESH_QD,
            thresh_ht: None,
            thresh_bw: None,
            thresh_slowdown: None,
            rules: true,
            many_a_round: false,
            sockets: false,
            tasks: BTreeMap::new(),
        }
    }
}
