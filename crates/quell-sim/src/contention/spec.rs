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
}

impl Default for ContentionSpec {
    fn default() -> ContentionSpec {
        ContentionSpec { on: true, llc_step: Nanos::from_millis(1), counters: Meters::default() }
    }
}

impl ContentionSpec {
    /// What makes no sense, and the mend.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.llc_step < Nanos::from_micros(10) {
            return Err(format!("contention.llc_step of {}: give at least 10us", self.llc_step));
        }
        self.counters.check()
    }
}
