//! Tables of runs.

use quell_report::table::{Table, table};

use crate::sim::Summary;

/// One line a policy: means over seeds.
#[must_use]
pub fn compared(runs: &[Vec<Summary>]) -> Table {
    let head = [
        "policy",
        "SLO violated",
        "min violated",
        "best-effort CPU h",
        "min waiting",
        "moves",
        "arrived",
        "failed",
        "helped",
    ];
    let row = |runs: &Vec<Summary>| {
        let mean = |of: &dyn Fn(&Summary) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
        let judged = mean(&|run| f64::from(run.judged.0));
        let helped = match judged > 0.0 {
            true => format!("{:.0} of {judged:.0}", mean(&|run| f64::from(run.judged.1))),
            false => "–".into(),
        };
        vec![
            runs.first().map_or(String::new(), |run| run.policy.clone()),
            format!("{:.2} %", 100.0 * mean(&|run| run.violated)),
            format!("{:.1}", mean(&|run| run.violated_minutes)),
            format!("{:.1}", mean(&|run| run.best_effort_hours)),
            format!("{:.1}", mean(&|run| run.pending_minutes)),
            format!("{:.0}", mean(&|run| f64::from(run.count.moves))),
            format!("{:.0}", mean(&|run| f64::from(run.count.arrived))),
            format!("{:.0}", mean(&|run| f64::from(run.count.failed))),
            helped,
        ]
    };
    table(head, runs.iter().map(row))
}
