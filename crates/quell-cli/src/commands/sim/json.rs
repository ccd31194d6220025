//! The outcomes as JSON, one line each.

use std::collections::BTreeMap;

use anyhow::Result;
use quell_sim::scenario::{Course, Report};
use serde::Serialize;

use super::compare::Outcome;

#[derive(Serialize)]
struct Line<'a> {
    /// Swept keys and their values here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sweep: BTreeMap<&'a str, &'a toml::Value>,
    #[serde(flatten)]
    report: &'a Report,
    /// The first repetition's course of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<&'a Course>,
}

/// A line for each outcome.
pub fn lines(outcomes: &[Outcome], with_series: bool) -> Result<String> {
    let mut text = String::new();
    for outcome in outcomes {
        text += &serde_json::to_string(&Line {
            sweep: outcome.point.iter().map(|(key, value)| (key.as_str(), value)).collect(),
            report: &outcome.report,
            series: outcome.course.as_ref().filter(|_| with_series),
        })?;
        text.push('\n');
    }
    Ok(text)
}
