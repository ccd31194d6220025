//! `quell demo runaway`: a latency-critical program goes wild, as many spinning threads as CPUs. Who keeps the machine?

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use quell_bench::human;
use quell_bench::table::table;
use quell_model::{Class, CpuCount};
use serde::Serialize;

use super::antagonist::Antagonist;
use super::measure::workload;
use super::phase::{SERVER, Setting, Treatment};
use super::probe::probe;
use super::treat;

/// The machine is watched for this long; a SCHED_FIFO runaway is not left alone for longer.
const WATCH: Duration = Duration::from_secs(4);

/// One way to treat the runaway.
#[derive(Serialize)]
pub struct Row {
    treatment: &'static str,
    /// Wake-ups of the probe in the time watched.
    wakeups: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    /// When each of its threads, or the workload, was demoted, seconds after its threads became real-time.
    demotions_s: Vec<f64>,
}

/// Runs the treatments one after the other.
pub fn run(cpus: u32) -> Result<Vec<Row>> {
    let treatments = [
        ("plain Linux", Treatment::Nothing),
        ("SCHED_FIFO (unsafe)", Treatment::Set(SERVER, Setting::Fifo)),
        ("Quell guard", Treatment::Policy("guard")),
    ];
    treatments.into_iter().map(|(name, treatment)| watch(name, treatment, cpus)).collect()
}

fn watch(name: &'static str, treatment: Treatment, cpus: u32) -> Result<Row> {
    let runaway = Antagonist::start("cpu", cpus, 2 * WATCH)?;
    let workloads = vec![workload("runaway", Class::LatencyCritical, CpuCount::whole(cpus), runaway.pid())];
    let (lateness, decisions) = treat::under(treatment, workloads, || {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| probe(&stop));
            thread::sleep(WATCH);
            stop.store(true, Ordering::Release);
            watcher.join().map_err(|_| anyhow!("the probe panicked"))
        })
    })?;
    let demoted = decisions.iter().filter(|(_, text)| text.contains("demoted"));
    Ok(Row {
        treatment: name,
        wakeups: lateness.count(),
        p50_ns: lateness.quantile(0.5),
        p99_ns: lateness.quantile(0.99),
        max_ns: lateness.max(),
        demotions_s: demoted.map(|(at, _)| *at).collect(),
    })
}

/// The comparison.
pub fn text(rows: &[Row], cpus: u32) -> String {
    let cells = rows.iter().map(|row| {
        let first = row.demotions_s.first().map_or("–".into(), |s| human::nanoseconds((s * 1e9) as u64));
        vec![
            row.treatment.to_owned(),
            row.wakeups.to_string(),
            human::nanoseconds(row.p50_ns),
            human::nanoseconds(row.p99_ns),
            human::nanoseconds(row.max_ns),
            first,
            row.demotions_s.len().to_string(),
        ]
    });
    let heads = ["", "probe's wake-ups", "late p50", "p99", "max", "first demotion", "demotions"];
    format!("{cpus} spinning latency-critical threads on {cpus} CPUs, watched for {WATCH:?}\n{}\n", table(heads, cells))
}
