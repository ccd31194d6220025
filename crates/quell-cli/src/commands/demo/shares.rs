//! `quell demo shares`: two latency-critical workloads, one of them overloaded. Does the other keep its CPUs?

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result};
use quell_bench::antagonist::Kind;
use quell_bench::load::{LoadReport, Monitor};
use quell_effect::quantile::needed;
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;
use serde::Serialize;

use super::baseline::is_sound;
use super::measure::Setup;
use super::output::print;
use super::result::Run;
use super::treat::Decision;
use super::{measure, scene};
use quell_command::output::stamped;

/// One way to treat the two.
#[derive(Serialize)]
pub struct Row {
    treatment: String,
    load: LoadReport,
    /// CPUs that the overloaded workload got.
    overloaded_cpus: Option<f64>,
    decisions: Vec<Decision>,
}

/// Runs the treatments one after the other, and shows them, also where Ctrl-C came.
pub fn show(setup: &Setup, cpus: u32, monitor: &Monitor, json: bool) -> Result<ExitCode> {
    let allowed = scene::may_be_real_time();
    let mut rows = Vec::new();
    let own = setup.server_threads;
    for phase in scene::shares(own, cpus) {
        let name = phase.name.to_owned();
        let left_out = phase.is_real_time() && !allowed;
        let run = (!left_out).then(|| measure::run(&phase, setup, Kind::Cpu, monitor)).transpose();
        if monitor.stop.load(Relaxed) {
            break;
        }
        let row = run.with_context(|| format!("in '{name}'"))?.map(|Run { load, antagonist, decisions, .. }| Row {
            treatment: name.clone(),
            load,
            overloaded_cpus: antagonist.map(|report| report.cpus),
            decisions,
        });
        rows.push((name, row));
    }
    if rows.is_empty() {
        eprintln!("quell: interrupted; everything is put back, nothing was measured");
        return Ok(ExitCode::from(130));
    }
    if json {
        let measured: Vec<_> = rows.iter().filter_map(|(_, row)| row.as_ref().map(stamped)).collect();
        print(&[serde_json::to_string_pretty(&measured)?])?;
        skipped(&rows).iter().for_each(|line| eprintln!("{line}"));
    } else {
        print(&[text(&rows, cpus)])?;
        print(&skipped(&rows))?;
        print(&[in_words(&rows)])?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each treatment that was left out.
pub fn skipped<T>(rows: &[(String, Option<T>)]) -> Vec<String> {
    let left_out = rows.iter().filter(|(_, row)| row.is_none());
    left_out.map(|(name, _)| format!("! skipped '{name}': {}", scene::NO_REAL_TIME)).collect()
}

/// Its row in a table of this many columns.
pub fn skipped_row(name: &str, columns: usize) -> Vec<String> {
    let mut cells = vec![format!("{name}: skipped")];
    cells.resize(columns, "–".to_owned());
    cells
}

/// The comparison.
fn text(rows: &[(String, Option<Row>)], cpus: u32) -> String {
    let cells = rows.iter().map(|(name, row)| {
        let Some(row) = row else { return skipped_row(name, HEADS.len()) };
        let at = |q| match is_sound(&row.load, q) {
            true => human::nanoseconds(row.load.latency.at(q)),
            false => "–".into(),
        };
        let got = row.overloaded_cpus.map_or("–".into(), |cpus| format!("{cpus:.2}"));
        vec![row.treatment.clone(), at(0.5), at(0.99), at(0.999), human::rate(row.load.served_per_s), got]
    });
    format!(
        "memcached beside a latency-critical workload of {} spinning threads\n{}",
        2 * cpus,
        table(HEADS, cells).fit(&Screen::here())
    )
}

const HEADS: [&str; 6] = ["", "p50", "p99", "p99.9", "served", "overloaded one's CPUs"];

/// The result in one line.
fn in_words(rows: &[(String, Option<Row>)]) -> String {
    let p99 = |row: &Row| is_sound(&row.load, 0.99).then(|| row.load.latency.at(0.99) as f64);
    let mut measured = rows.iter().filter_map(|(name, row)| Some((name, row.as_ref()?)));
    let Some((_, alone)) = measured.next() else {
        return "result: the server alone was not measured; nothing to compare with".into();
    };
    let Some(alone) = p99(alone) else {
        return format!(
            "result: no ratios: the server alone gave {} answers, and a p99 needs {}: give more --seconds or a higher --rate",
            alone.load.counts.answered,
            needed(0.99)
        );
    };
    let mut over_alone = measured.peekable();
    if over_alone.peek().is_none() {
        let alone = human::nanoseconds(alone as u64);
        return format!("result: memcached's p99 alone is {alone}; nothing was measured beside an overloaded workload");
    }
    let over_alone = over_alone.map(|(name, row)| {
        let latency =
            p99(row).map_or("too few answers for a p99".into(), |p99| format!("{:.1} ×", p99 / alone.max(1.0)));
        format!("{name} {latency} (the other gets {:.2} CPUs)", row.overloaded_cpus.unwrap_or(0.0))
    });
    format!(
        "result: memcached's p99 beside an overloaded workload, against alone: {}",
        over_alone.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::tests::run;

    #[test]
    fn one_that_was_cut_short_compares_with_nothing() {
        let row = |treatment: &str, latency_us: u64, overloaded_cpus| {
            let treatment = treatment.to_owned();
            let load = run(1_000 * latency_us, 1_000).load;
            (treatment.clone(), Some(Row { treatment, load, overloaded_cpus, decisions: vec![] }))
        };
        let alone = in_words(&[row("server alone", 40, None)]);
        assert!(
            alone.starts_with("result: memcached's p99 alone is ") && alone.contains("nothing was measured"),
            "{alone}"
        );
        let both = in_words(&[row("server alone", 40, None), row("plain Linux", 120, Some(1.5))]);
        let mut few = [row("server alone", 40, None), row("plain Linux", 120, Some(1.5))];
        let answers = |row: &mut (String, Option<Row>), count| row.1.as_mut().unwrap().load.counts.answered = count;
        answers(&mut few[1], 999);
        assert!(in_words(&few).contains("plain Linux too few answers for a p99"), "{}", in_words(&few));
        assert_eq!(text(&few, 2).matches("120 µs").count(), 1, "a p50, and no p99 of 999 answers: {}", text(&few, 2));
        answers(&mut few[0], 999);
        let none = in_words(&few);
        assert!(
            none.starts_with("result: no ratios: ") && none.contains("999 answers") && !none.contains('×'),
            "{none}"
        );
        assert!(both.ends_with("against alone: plain Linux 3.0 × (the other gets 1.50 CPUs)"), "{both}");
    }
}
