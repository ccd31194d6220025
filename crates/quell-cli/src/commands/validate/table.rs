//! The rows for people.

use quell_report::screen::Screen;
use quell_report::table::table;

use super::compare::{Near, Row};
use crate::commands::reproduce::table::number;

/// The table, and how many rows are near.
pub fn text(rows: &[Row], screen: &Screen) -> String {
    let head = ["scene", "policy", "workload", "measure", "simulated", "real", "real's 95 %", "error", ""];
    let mut text = table(head, rows.iter().map(cells)).fit(screen) + "\n\n";
    let count = |near: Near| rows.iter().filter(|row| row.near == near).count();
    let judged = rows.len() - count(Near::NotJudged);
    text += &format!(
        "{judged} rows: {} within their bounds, {} within the real kernel's own spread, {} off\n",
        count(Near::Yes),
        count(Near::WithinSpread),
        count(Near::No)
    );
    text += "latencies in µs; bounds: CPUs 2 %, p50 5 %, p99 10 %\n";
    text
}

fn cells(row: &Row) -> [String; 9] {
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
        format!("{:+.1} %", row.error * 100.0),
        near.into(),
    ]
}
