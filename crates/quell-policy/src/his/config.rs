//! The parameters of `his`.

use quell_model::Nanos;

use crate::parameter::parameters;

parameters! {
    /// The parameters of `his`.
    pub struct HisConfig {
        /// How often contention is looked at, and how long the effect of an isolation is waited for (snu2020 §3.4.1,
        /// §3.4.2: 100 ms).
        interval: Nanos = Nanos::from_millis(100), in Nanos::from_millis(1)..=Nanos::from_secs(10);
        /// Contention below this part of the solo run is none (§3.4: "i.e., 5% for each contention").
        threshold: f64 = 0.05, in 0.001..=1.0;
        /// How long a solo run lasts (§3.4.1: "one or two seconds").
        solo: Nanos = Nanos::from_secs(1), in Nanos::from_millis(10)..=Nanos::from_secs(60);
        /// Solo-run data older than this is outdated (the paper gives no number; this one is ours).
        outdated: Nanos = Nanos::from_secs(60), in Nanos::from_millis(100)..=Nanos::from_secs(24 * 3600);
        /// A resource whose use differs from the solo run by more than this part of it may be in another phase (§4.3.1: 1).
        phase_change: f64 = 1.0, in 0.01..=100.0;
        /// So many times in a row it is another phase (§4.3.1: three times).
        phase_strikes: u32 = 3, in 1..=1000, unit "times";
        /// Ways of the last-level cache (§3.4.2: 20).
        cache_ways: u32 = 20, in 2..=32, unit "ways";
        /// Lowest frequency (§3.3.1: 1.2 GHz).
        min_khz: u32 = 1_200_000, in 100_000..=10_000_000, unit "kHz";
        /// Highest frequency (§3.3.1: 2.1 GHz).
        max_khz: u32 = 2_100_000, in 100_000..=10_000_000, unit "kHz";
        /// A step of frequency (§3.2: 0.1 GHz).
        khz_step: u32 = 100_000, in 1_000..=1_000_000, unit "kHz";
    }
    check(config) {
        let HisConfig { solo, outdated, min_khz, max_khz, .. } = config;
        if outdated < solo {
            return Err(format!("solo-run data would be outdated ({outdated}) within the run ({solo}): give a longer outdated"));
        }
        if min_khz > max_khz {
            return Err(format!("min_khz = {min_khz} is above max_khz = {max_khz}: exchange them"));
        }
        Ok(())
    }
}
