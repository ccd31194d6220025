//! The rows for people.

use quell_report::screen::Screen;
use quell_report::table::table;

use super::compare::{Near, Row};
use crate::commands::paper::table::number;

pub const HEAD: [&str; 9] = ["scene", "policy", "workload", "measure", "simulated", "real", "real's 95 %", "error", ""];

/// The table, and how many rows are near.
pub fn text(rows: &[&Row], screen: &Screen) -> String {
    let table = table(HEAD, rows.iter().map(|row| cells(row))).fit(screen);
    let units = "latencies in µs, counts a second; bounds: CPUs 2 %, p50 5 %, p99 10 %";
    format!("{table}\n\n{}\n{units}\n", summary(rows))
}

/// How many rows are near.
pub fn summary(rows: &[&Row]) -> String {
    let count = |near: Near| rows.iter().filter(|row| row.near == near).count();
    let judged = rows.len() - count(Near::NotJudged);
    format!(
        "{judged} rows: {} within their bounds, {} within the real kernel's own spread, {} off",
        count(Near::Yes),
        count(Near::WithinSpread),
        count(Near::No)
    )
}

/// A row's cells under [`HEAD`].
pub fn cells(row: &Row) -> [String; 9] {
    let interval = row.real_interval.map_or("–".into(), |(low, high)| format!("{} to {}", number(low), number(high)));
    let near = match row.near {
        Near::Yes => "near",
        Near::WithinSpread => "within spread",
        Near::No => "off",
        Near::NotJudged => "",
    };
    [
        row.scene.clone(),
        row.treatment.clone(),
        row.workload.clone(),
        row.measure.into(),
        number(row.simulated),
        number(row.real),
        interval,
        row.error.map_or("–".into(), |error| format!("{:+.1} %", error * 100.0)),
        near.into(),
    ]
}
