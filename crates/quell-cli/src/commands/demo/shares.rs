//! `quell demo shares`: two latency-critical workloads, one of them overloaded. Does the other keep its CPUs?

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};
use quell_bench::antagonist::Kind;
use quell_bench::load::{self, LoadReport, LoadSpec, Monitor};
use quell_model::{Class, CpuCount};
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;
use serde::Serialize;

use super::antagonist::Antagonist;
use super::measure::{Setup, workload};
use super::output::print;
use super::phase::{self, ANTAGONIST, SERVER, Treatment};
use super::server::Server;
use super::treat::{self, Decision};
use crate::commands::output::stamped;

/// One way to treat the two.
#[derive(Serialize)]
pub struct Row {
    treatment: &'static str,
    load: LoadReport,
    /// CPUs that the overloaded workload got.
    overloaded_cpus: Option<f64>,
    decisions: Vec<Decision>,
}

const TREATMENTS: [(&str, Treatment, bool); 5] = [
    ("server alone", Treatment::Nothing, false),
    ("plain Linux", Treatment::Nothing, true),
    ("server SCHED_FIFO", Treatment::Fifo(SERVER), true),
    ("overloaded one SCHED_FIFO", Treatment::Fifo(ANTAGONIST), true),
    ("Quell guard", Treatment::Policy("guard"), true),
];

/// Runs the treatments one after the other, and shows them, also where Ctrl-C came.
pub fn show(setup: &Setup, cpus: u32, monitor: &Monitor, json: bool) -> Result<ExitCode> {
    let allowed = phase::may_be_real_time();
    let mut rows = Vec::new();
    for (name, treatment, overload) in TREATMENTS {
        let left_out = treatment.is_real_time() && !allowed;
        let row = (!left_out).then(|| measure(name, treatment, overload, setup, cpus, monitor)).transpose()?;
        if monitor.stop.load(Relaxed) {
            break;
        }
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
pub fn skipped<T>(rows: &[(&str, Option<T>)]) -> Vec<String> {
    let left_out = rows.iter().filter(|(_, row)| row.is_none());
    left_out.map(|(name, _)| format!("! skipped '{name}': {}", phase::NO_REAL_TIME)).collect()
}

/// Its row in a table of this many columns.
pub fn skipped_row(name: &str, columns: usize) -> Vec<String> {
    let mut cells = vec![format!("{name}: skipped")];
    cells.resize(columns, "–".to_owned());
    cells
}

fn measure(
    name: &'static str,
    treatment: Treatment,
    overload: bool,
    setup: &Setup,
    cpus: u32,
    monitor: &Monitor,
) -> Result<Row> {
    let server = Server::start(setup.server_threads)?;
    let spec = LoadSpec { target: server.address().parse()?, ..setup.load.clone() };
    let own = CpuCount::whole(setup.server_threads);
    let mut workloads = vec![workload("memcached", Class::LatencyCritical, own, server.pid())];
    let overloaded = if overload {
        let at_most = 2 * Duration::from_nanos(spec.warmup_ns + spec.duration_ns + spec.drain_ns);
        let overloaded = Antagonist::start(Kind::Cpu, 2 * cpus, at_most, false)?;
        let rest = CpuCount::whole(cpus - setup.server_threads);
        workloads.push(workload("overloaded", Class::LatencyCritical, rest, overloaded.pid()));
        Some(overloaded)
    } else {
        None
    };
    let work = || Ok(load::run_watched(&spec, monitor)?);
    let ((load, overloaded_cpus), decisions) = treat::under(treatment, workloads, work, |load| {
        let overloaded_cpus = overloaded.map(|process| process.end().map(|report| report.cpus)).transpose();
        drop(server);
        Ok((load, overloaded_cpus.with_context(|| format!("in '{name}'"))?))
    })?;
    Ok(Row { treatment: name, load, overloaded_cpus, decisions })
}

/// The comparison.
fn text(rows: &[(&str, Option<Row>)], cpus: u32) -> String {
    let cells = rows.iter().map(|(name, row)| {
        let Some(row) = row else { return skipped_row(name, HEADS.len()) };
        let at = |q| human::nanoseconds(row.load.latency.at(q));
        let got = row.overloaded_cpus.map_or("–".into(), |cpus| format!("{cpus:.2}"));
        vec![row.treatment.to_owned(), at(0.5), at(0.99), at(0.999), human::rate(row.load.served_per_s), got]
    });
    format!(
        "memcached beside a latency-critical workload of {} spinning threads\n{}",
        2 * cpus,
        table(HEADS, cells).fit(&Screen::here())
    )
}

const HEADS: [&str; 6] = ["", "p50", "p99", "p99.9", "served", "overloaded one's CPUs"];

/// The result in one line.
fn in_words(rows: &[(&str, Option<Row>)]) -> String {
    let p99 = |row: &Row| (row.load.counts.answered > 0).then(|| row.load.latency.at(0.99) as f64);
    let mut measured = rows.iter().filter_map(|(name, row)| Some((*name, row.as_ref()?)));
    let Some(alone) = measured.next().and_then(|(_, row)| p99(row)) else {
        return "result: the server alone was not measured; nothing to compare with".into();
    };
    let mut over_alone = measured.peekable();
    if over_alone.peek().is_none() {
        let alone = human::nanoseconds(alone as u64);
        return format!("result: memcached's p99 alone is {alone}; nothing was measured beside an overloaded workload");
    }
    let over_alone = over_alone.map(|(name, row)| {
        let latency = p99(row).map_or("no answer in time".into(), |p99| format!("{:.1} ×", p99 / alone.max(1.0)));
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
        let row = |treatment, latency_us: u64, overloaded_cpus| {
            let load = run(1_000 * latency_us, 1_000).load;
            (treatment, Some(Row { treatment, load, overloaded_cpus, decisions: vec![] }))
        };
        let alone = in_words(&[row("server alone", 40, None)]);
        assert!(
            alone.starts_with("result: memcached's p99 alone is ") && alone.contains("nothing was measured"),
            "{alone}"
        );
        let both = in_words(&[row("server alone", 40, None), row("plain Linux", 120, Some(1.5))]);
        assert!(both.ends_with("against alone: plain Linux 3.0 × (the other gets 1.50 CPUs)"), "{both}");
    }
}
