//! `quell demo runaway`: a runaway latency-critical program, as many spinning threads as CPUs, and the machine beside
//! it.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use quell_bench::antagonist::Kind;
use quell_effect::quantile::needed;
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;
use serde::Serialize;

use super::measure::asked;
use super::output::print;
use super::probe::probe;
use super::scene::{self, Phase};
use super::{shares, treat};
use quell_command::output::stamped;
use quell_command::programs::antagonist::Antagonist;

/// The machine is watched for this long; a SCHED_FIFO runaway is not left alone for longer.
const WATCH: Duration = Duration::from_secs(4);

/// One way to treat the runaway.
#[derive(Serialize)]
pub struct Row {
    treatment: String,
    /// Wake-ups of the probe in the time watched.
    wakeups: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    /// Times of the demotions of its threads, or of the workload, seconds after its threads became real-time.
    demotions_s: Vec<f64>,
}

/// Runs the treatments one after the other, and shows them.
pub fn show(cpus: u32, json: bool) -> Result<ExitCode> {
    let allowed = scene::may_be_real_time();
    let mut rows = Vec::new();
    for phase in scene::runaway(cpus) {
        let left_out = phase.is_real_time() && !allowed;
        let row = (!left_out).then(|| watch(&phase)).transpose()?;
        rows.push((phase.name.to_owned(), row));
    }
    if json {
        let measured: Vec<_> = rows.iter().filter_map(|(_, row)| row.as_ref().map(stamped)).collect();
        print(&[serde_json::to_string_pretty(&measured)?])?;
        shares::skipped(&rows).iter().for_each(|line| eprintln!("{line}"));
    } else {
        print(&[text(&rows, cpus)])?;
        print(&shares::skipped(&rows))?;
        print(&[in_words(&rows, cpus)])?;
    }
    Ok(ExitCode::SUCCESS)
}

fn watch(phase: &Phase) -> Result<Row> {
    let spec = phase.parts.first().context("a scene without a runaway")?;
    let runaway = Antagonist::start(asked(spec, Kind::Cpu), 2 * WATCH)?.begun()?;
    let workloads = vec![spec.workload(runaway.pid())];
    let watched = || {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| probe(&stop));
            thread::sleep(WATCH);
            stop.store(true, Ordering::Release);
            watcher.join().map_err(|_| anyhow!("the probe panicked"))
        })
    };
    let (lateness, decisions) = treat::under(phase, workloads, watched, |lateness| {
        drop(runaway);
        Ok(lateness)
    })?;
    let demoted = decisions.iter().filter(|(_, text)| text.contains("demoted"));
    Ok(Row {
        treatment: phase.name.to_owned(),
        wakeups: lateness.count(),
        p50_ns: lateness.quantile(0.5),
        p99_ns: lateness.quantile(0.99),
        max_ns: lateness.max(),
        demotions_s: demoted.map(|(at, _)| *at).collect(),
    })
}

/// The comparison.
fn text(rows: &[(String, Option<Row>)], cpus: u32) -> String {
    let cells = rows.iter().map(|(name, row)| {
        let Some(row) = row else { return shares::skipped_row(name, HEADS.len()) };
        let first = row.demotions_s.first().map_or("–".into(), |s| human::nanoseconds((s * 1e9) as u64));
        vec![
            row.treatment.clone(),
            row.wakeups.to_string(),
            human::nanoseconds(row.p50_ns),
            match row.wakeups >= needed(0.99) {
                true => human::nanoseconds(row.p99_ns),
                false => "–".into(),
            },
            human::nanoseconds(row.max_ns),
            first,
            row.demotions_s.len().to_string(),
        ]
    });
    format!(
        "{cpus} spinning latency-critical threads on {cpus} CPUs, watched for {WATCH:?}\n{}",
        table(HEADS, cells).least(["late p50"]).fit(&Screen::here())
    )
}

const HEADS: [&str; 7] = ["", "probe's wake-ups", "late p50", "p99", "max", "first demotion", "demotions"];

/// The result in one line.
fn in_words(rows: &[(String, Option<Row>)], cpus: u32) -> String {
    let late = rows.iter().filter_map(|(name, row)| {
        let row = row.as_ref()?;
        let demoted = match row.demotions_s.first() {
            Some(first) => format!(", which demoted the first after {}", human::nanoseconds((first * 1e9) as u64)),
            None => String::new(),
        };
        Some(format!("{} under {name}{demoted}", human::nanoseconds(row.max_ns)))
    });
    let late: Vec<String> = late.collect();
    format!("result: beside {cpus} runaway threads an ordinary thread woke up late by at most {}", late.join(", "))
}
