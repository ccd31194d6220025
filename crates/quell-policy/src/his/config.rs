//! The parameters of `his`. The ranges of what it turns are the machine's ([`quell_model::Controls`]).

use quell_model::Nanos;

use crate::parameter::parameters;

parameters! {
    /// The parameters of `his`.
    pub struct HisConfig {
        /// How often contention is looked at, and how long the effect of an isolation is waited for (snu2020 §3.4.1,
        /// §3.4.2: 100 ms).
        interval: Nanos = Nanos::from_millis(100), in Nanos::from_millis(1)..=Nanos::from_secs(10);
        /// Contention below this part of the solo run begins no search (§3.4: "i.e., 5% for each contention").
        threshold: f64 = 0.05, in 0.001..=1.0;
        /// A search ends at a difference of this part or less, or when a step moved it by no more (the authors' code: 0.5 %).
        stop: f64 = 0.005, in 0.0..=1.0;
        /// Another isolator is taken after this number of looks in a row in which another resource is the most contended
        /// (the authors' code: 3).
        mismatches: u32 = 3, in 1..=1000, unit "times";
        /// How long a solo run lasts (§3.4.1: "one or two seconds").
        solo: Nanos = Nanos::from_secs(1), in Nanos::from_millis(10)..=Nanos::from_secs(60);
        /// Solo-run data older than this is outdated (the paper gives no number; this one is ours).
        outdated: Nanos = Nanos::from_secs(60), in Nanos::from_millis(100)..=Nanos::from_secs(24 * 3600);
        /// A resource whose use differs from the solo run by more than this part of it may be in another phase (§4.3.1: 1).
        phase_change: f64 = 1.0, in 0.01..=100.0;
        /// This many times in a row it is another phase (§4.3.1: three times).
        phase_strikes: u32 = 3, in 1..=1000, unit "times";
        /// Memory bandwidth is compared per CPU time, so that less load is not taken for contention (ours; the text
        /// compares it as it is).
        load_aware: bool = false;
        /// The memory throttle is used against bandwidth contention, after frequency (ours: the text has none).
        throttle: bool = false;
        /// Is each search a trial: judged by what the foreground has of it, and undone if that is nothing? (Ours: the text
        /// has none.)
        verify: bool = true;
        /// Two sockets exchange their background when that is estimated to gain more than this, in instruction rates over
        /// those of the solo runs, three times in a row (the authors' code: 0.1).
        migration_gain: f64 = 0.1, in 0.0..=10.0;
        /// Shortest time between two exchanges (the authors' code: 2 s).
        migration_pause: Nanos = Nanos::from_secs(2), in Nanos::from_millis(100)..=Nanos::from_secs(3600);
    }
    check(config) {
        let HisConfig { solo, outdated, threshold, stop, .. } = config;
        if outdated < solo {
            return Err(format!("solo-run data would be outdated ({outdated}) within the run ({solo}): give a longer outdated"));
        }
        if stop > threshold {
            return Err(format!("stop = {stop} is above threshold = {threshold}: give the smaller one"));
        }
        Ok(())
    }
}
