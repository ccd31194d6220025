//! What was played, for people.

use quell_model::Class;
use quell_report::human;
use quell_report::table::{Table, table};

use super::run::Row;

/// A row a stack, workload and repetition.
pub fn of(rows: &[Row]) -> Table {
    const HEADS: [&str; 10] =
        ["policy", "workload", "class", "done/s", "mean", "p50", "p99", "p99.9", "CPUs got", "waiting"];
    table(HEADS, rows.iter().map(cells))
}

fn cells(row: &Row) -> [String; 10] {
    let all = row.latencies();
    let some = all.count() > 0;
    let time = |ns: u64| if some { human::nanoseconds(ns) } else { "–".into() };
    let seconds = row.played.measured.as_secs_f64().max(1e-9);
    [
        row.stack.clone(),
        row.played.name.clone(),
        if row.class == Class::LatencyCritical { "LC" } else { "BE" }.into(),
        if row.played.done > 0 { human::rate(row.played.done as f64 / seconds) } else { "–".into() },
        time(all.mean() as u64),
        time(all.quantile(0.5)),
        time(all.quantile(0.99)),
        time(all.quantile(0.999)),
        format!("{:.2}", row.cpus(row.played.ran)),
        format!("{:.2}", row.cpus(row.played.waited)),
    ]
}
