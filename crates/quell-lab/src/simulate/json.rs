//! The outcomes as JSON, one line each.

use std::collections::BTreeMap;

use anyhow::Result;
use quell_sim::scenario::{Course, Remark, Report};
use serde::Serialize;

use super::compare::Outcome;

/// Units of the numbers of a line.
const UNITS: [(&str, &str); 5] = [
    ("times", "ns"),
    ("throughput, rates", "per second"),
    ("memory_bandwidth", "bytes per second"),
    ("cpus_got, cpus_requested", "CPUs"),
    ("utilisation, slo_violations, llc_hit_ratio", "parts of 1"),
];

#[derive(Serialize)]
struct Line<'a> {
    /// Of Quell.
    version: &'a str,
    /// As on the command line.
    scenario: &'a str,
    seed: u64,
    /// `--set`, as on the command line.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    set: &'a [String],
    /// Of the policy, as in the scenario; its defaults are not repeated.
    parameters: &'a toml::Table,
    units: BTreeMap<&'a str, &'a str>,
    /// Swept keys and their values here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sweep: BTreeMap<&'a str, &'a toml::Value>,
    #[serde(flatten)]
    report: &'a Report,
    /// The policy's remarks.
    notes: &'a [Remark],
    /// The first repetition's course of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<&'a Course>,
}

/// The request, as on the command line.
pub struct Asked<'a> {
    pub scenario: &'a str,
    pub set: &'a [String],
}

/// A line for each outcome.
pub fn lines(asked: &Asked, outcomes: &[Outcome], with_series: bool) -> Result<String> {
    let mut text = String::new();
    for outcome in outcomes {
        text += &serde_json::to_string(&Line {
            version: env!("CARGO_PKG_VERSION"),
            scenario: asked.scenario,
            seed: outcome.seed,
            set: asked.set,
            parameters: &outcome.parameters,
            units: UNITS.into(),
            notes: &outcome.remarks,
            sweep: outcome.point.iter().map(|(key, value)| (key.as_str(), value)).collect(),
            report: &outcome.report,
            series: outcome.course.as_ref().filter(|_| with_series),
        })?;
        text.push('\n');
    }
    Ok(text)
}
