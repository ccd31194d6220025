//! Contention as a scenario describes it.

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use super::Meters;

/// `[contention]`: what is modelled of it. Without a workload that has a profile there is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContentionSpec {
    /// Off: profiles have no effect, and the result is that without them, to the byte.
    pub on: bool,
    /// How often the parts of the last-level cache move while anything runs (our choice: a cache of 30 MB fills in 1 ms at
    /// 30 GB/s).
    pub llc_step: Nanos,
    /// How good the counters are that policies see: `exact`, `counters`, `cmt-mbm`, or a table.
    pub counters: Meters,
    /// References find the core's super queue full in proportion to this power of the queue's mean filling (assumed; no
    /// program is faster or slower for it).
    pub full_power: f64,
}

/// The power by which a super queue's mean filling makes full-buffer events where nothing else is said (assumed).
const FULL_POWER: f64 = 4.0;

impl Default for ContentionSpec {
    fn default() -> ContentionSpec {
        let (llc_step, counters) = (Nanos::from_millis(1), Meters::default());
        ContentionSpec { on: true, llc_step, counters, full_power: FULL_POWER }
    }
}

impl ContentionSpec {
    /// What makes no sense, and the fix.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.llc_step < Nanos::from_micros(10) {
            return Err(format!("contention.llc_step of {}: give at least 10us", self.llc_step));
        }
        if !(1.0..=32.0).contains(&self.full_power) {
            return Err(format!("contention.full_power of {}: give 1 to 32", self.full_power));
        }
        self.counters.check()
    }
}
