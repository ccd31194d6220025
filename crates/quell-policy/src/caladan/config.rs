//! The parameters of `caladan`.

use std::collections::BTreeMap;

use quell_model::{BytesPerSecond, Nanos};

use crate::cores;
use crate::parameter::parameters;

/// Interval of the controllers and the allocator (caladan-osdi20 §5.2: "once every 10 μs").
pub const INTERVAL: Nanos = Nanos::from_micros(10);

/// The queueing delay from which on a task gets another core (App. A: "Caladan's default 10 μs").
pub const THRESH_QD: Nanos = Nanos::from_micros(10);

parameters! {
    /// The parameters of `caladan`.
    pub struct CaladanConfig {
        /// How often the controllers and the allocator run (caladan-osdi20 §5.2: every 10 µs).
        interval: Nanos = INTERVAL, in SHORTEST..=LONGEST;
        /// THRESH_QD of every task that has none of its own: the queueing delay from which on it gets another core (App. A:
        /// 10 µs).
        thresh_qd: Nanos = THRESH_QD, in SHORTEST..=LONGEST;
        /// THRESH_HT of every LC task that has none of its own: the time after which a request's sibling hyperthread is left
        /// idle; not set: never, as App. A recommends for service times under 5 µs.
        thresh_ht: Option<Nanos> = None, in SHORTEST..=LONGEST;
        /// THRESH_BW, "set once per machine to a bandwidth just low enough to avoid the exponential increase in memory
        /// access latency", 70–80 % of its capacity (App. A); not set: the controller is off.
        thresh_bw: Option<BytesPerSecond> = None, in BytesPerSecond(1e6)..=BytesPerSecond(1e13);
        /// The same as a multiple of the memory's quiet latency, for machines that do not count bytes; asked only where
        /// THRESH_BW is not set or the bandwidth is not measured.
        thresh_slowdown: Option<f64> = None, in 1.001..=1000.0, unit "times";
        /// Does the host act by itself between two rounds: guaranteed cores at a wake-up, succession at a yield, limits?
        /// Without, as in the paper, everything waits for the scheduler's polling.
        rules: bool = true;
        /// Is a task granted as many cores in a round as its delay is multiples of its THRESH_QD? In the paper it is one
        /// (Algorithm 1), so that a task that needs many of them waits for as many rounds.
        many_a_round: bool = false;
        /// Is data that lies unread in a task's sockets part of its queueing delay, as the network's queues are in the paper
        /// (§5.2.1)? For programs of which any thread may read any socket; of others no core helps where a thread is busy.
        sockets: bool = false;
        /// Thresholds of single tasks, by workload name.
        tasks: BTreeMap<String, Thresholds> = BTreeMap::new();
    }
    check(config) { Ok(()) }
}

parameters! {
    /// One task's thresholds, where they differ.
    #[derive(Copy)]
    pub struct Thresholds {
        /// This task's THRESH_QD.
        thresh_qd: Option<Nanos> = None, in SHORTEST..=LONGEST;
        /// This task's THRESH_HT.
        thresh_ht: Option<Nanos> = None, in SHORTEST..=LONGEST;
    }
    check(thresholds) { Ok(()) }
}

/// No loop turns more often.
const SHORTEST: Nanos = Nanos::from_micros(1);
/// For experiments; this policy is not made for latencies of seconds.
const LONGEST: Nanos = Nanos::from_secs(10);

impl CaladanConfig {
    /// A task's own thresholds, or the common ones.
    pub(super) fn thresholds(&self, task: &str) -> cores::Thresholds {
        let own = self.tasks.get(task).copied().unwrap_or_default();
        cores::Thresholds {
            qd: own.thresh_qd.unwrap_or(self.thresh_qd),
            ht: own.thresh_ht.or(self.thresh_ht).unwrap_or(Nanos::MAX),
        }
    }
}
