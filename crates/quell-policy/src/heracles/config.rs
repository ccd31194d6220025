//! The parameters of `heracles`.

use quell_model::{BytesPerSecond, Nanos};
use serde::{Deserialize, Serialize};

use crate::parameter::{choices, parameters};

/// The top-level rules, of which there are three versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Algorithm 1 as printed: the rules for slack are reached only between the two loads.
    Printed,
    /// As the prose around it says: slack counts at every load at which best-effort work is on.
    #[default]
    Prose,
    /// As snu2020 §3.5 built it: no cooldown, on below 70 % load, growth without asking for slack.
    Thesis,
}

choices! {
    Form {
        Form::Printed = "printed",
        Form::Prose = "prose",
        Form::Thesis = "thesis",
    }
}

parameters! {
    /// The parameters of `heracles`.
    pub struct HeraclesConfig {
        /// Which version of the top-level rules.
        form: Form = Form::Prose;
        /// How often the top-level controller polls latency and load (Algorithm 1: 15 s; snu2020 §3.5: 1 s).
        interval: Nanos = Nanos::from_secs(15), in Nanos::from_millis(10)..=Nanos::from_secs(600);
        /// How often the core and memory controller acts (Algorithm 2: 2 s; snu2020 §3.5: 1 s).
        subinterval: Nanos = Nanos::from_secs(2), in Nanos::from_millis(10)..=Nanos::from_secs(600);
        /// Best-effort work stays off for this time after a missed SLO (Algorithm 1: 5 minutes).
        cooldown: Nanos = Nanos::from_secs(300), in Nanos::ZERO..=Nanos::from_secs(24 * 3600);
        /// Best-effort work is off above this load (Algorithm 1: 0.85).
        load_off: f64 = 0.85, in 0.01..=1.0;
        /// It is on below this load (Algorithm 1: 0.80).
        load_on: f64 = 0.80, in 0.01..=1.0;
        /// It grows only with more slack than this (Algorithm 1: 0.10).
        slack_grow: f64 = 0.10, in 0.0..=1.0;
        /// With less slack than this it keeps [`HeraclesConfig::cores_left`] (Algorithm 1: 0.05).
        slack_shrink: f64 = 0.05, in 0.0..=1.0;
        /// Cores that it keeps then (Algorithm 1: 2).
        cores_left: u32 = 2, in 1..=1024, unit "cores";
        /// Best-effort work's part of the LLC when it is switched on (§4.3: 10 %).
        first_ways: f64 = 0.10, in 0.01..=0.9;
        /// Part of the peak bandwidth that may be in use (Algorithm 2: 0.90).
        bandwidth_limit: f64 = 0.90, in 0.01..=1.0;
        /// The memory's peak bandwidth; the machine's, as its maker or a streaming test says (snu2020 §3.5: 68 GB/s a socket).
        peak_bandwidth: BytesPerSecond = BytesPerSecond(68e9), in BytesPerSecond(1e6)..=BytesPerSecond(1e13);
        /// The service's highest request rate, to which load is relative, in requests a second; 0: load is not asked.
        peak_rate: f64 = 0.0, in 0.0..=1e12, unit "requests/s";
        /// The frequency of best-effort work's cores is lowered above the bandwidth limit before it loses cores (snu2020
        /// §3.5 has such a controller; the published one goes by power, which is left out).
        frequency: bool = false;
    }
    check(config) {
        let HeraclesConfig { load_off, load_on, slack_grow, slack_shrink, .. } = config;
        if load_on > load_off {
            return Err(format!("load_on = {load_on} is above load_off = {load_off}: exchange them"));
        }
        if slack_shrink > slack_grow {
            return Err(format!("slack_shrink = {slack_shrink} is above slack_grow = {slack_grow}: exchange them"));
        }
        Ok(())
    }
}
