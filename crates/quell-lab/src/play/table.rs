//! What was played, for people.

use quell_model::Class;
use quell_report::human;
use quell_report::table::{Table, table};

use super::run::Report;

/// A row a stack, workload and repetition.
pub fn of(rows: &[Report]) -> Table {
    const HEADS: [&str; 10] =
        ["policy", "workload", "class", "done/s", "mean", "p50", "p99", "p99.9", "CPUs got", "waiting"];
    table(HEADS, rows.iter().map(cells))
}

fn cells(row: &Report) -> [String; 10] {
    let time = |ns: Option<u64>| ns.map_or("–".into(), human::nanoseconds);
    let seconds = (row.measured_ns as f64 / 1e9).max(1e-9);
    [
        row.stack.clone(),
        row.workload.clone(),
        if row.class == Class::LatencyCritical { "LC" } else { "BE" }.into(),
        if row.done > 0 { human::rate(row.done as f64 / seconds) } else { "–".into() },
        time(row.mean_ns.map(|mean| mean as u64)),
        time(row.p50_ns),
        time(row.p99_ns),
        time(row.p999_ns),
        format!("{:.2}", row.cpus),
        format!("{:.2}", row.waiting),
    ]
}
