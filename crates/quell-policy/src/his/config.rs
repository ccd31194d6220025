//! The parameters of `his`.

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HisConfig {
    /// How often contention is looked at, and how long the effect of an isolation is waited for (snu2020 §3.4.1,
    /// §3.4.2: 100 ms).
    pub interval: Nanos,
    /// Contention below this part of the solo run is none (§3.4: "i.e., 5% for each contention").
    pub threshold: f64,
    /// How long a solo run lasts (§3.4.1: "one or two seconds").
    pub solo: Nanos,
    /// Solo-run data older than this is outdated. The paper gives no number; this one is ours.
    pub outdated: Nanos,
    /// A resource whose use differs from the solo run by more than this part of it … (§4.3.1: 1).
    pub phase_change: f64,
    /// … so many times in a row is another phase (§4.3.1: three times).
    pub phase_strikes: u32,
    /// Ways of the last-level cache (§3.4.2: 20).
    pub cache_ways: u32,
    /// Lowest frequency, kHz (§3.3.1: 1.2 GHz).
    pub min_khz: u32,
    /// Highest frequency, kHz (§3.3.1: 2.1 GHz).
    pub max_khz: u32,
    /// A step of frequency, kHz (§3.2: 0.1 GHz).
    pub khz_step: u32,
}

impl Default for HisConfig {
    fn default() -> HisConfig {
        HisConfig {
            interval: Nanos::from_millis(100),
            threshold: 0.05,
            solo: Nanos::from_secs(1),
            outdated: Nanos::from_secs(60),
            phase_change: 1.0,
            phase_strikes: 3,
            cache_ways: 20,
            min_khz: 1_200_000,
            max_khz: 2_100_000,
            khz_step: 100_000,
        }
    }
}
