//! `quell demo shares`: two latency-critical workloads, one of them overloaded. Does the other keep its CPUs?

use std::time::Duration;

use anyhow::{Context, Result};
use quell_bench::human;
use quell_bench::load::{self, LoadReport, LoadSpec, Monitor};
use quell_bench::table::table;
use quell_model::{Class, CpuCount, WorkloadId};
use serde::Serialize;

use super::antagonist::Antagonist;
use super::measure::{Setup, workload};
use super::phase::{ANTAGONIST, SERVER, Setting, Treatment};
use super::server::Server;
use super::treat::{self, Decision};

/// One way to treat the two.
#[derive(Serialize)]
pub struct Row {
    treatment: &'static str,
    load: LoadReport,
    /// CPUs that the overloaded workload got.
    overloaded_cpus: Option<f64>,
    decisions: Vec<Decision>,
}

/// Runs the treatments one after the other.
pub fn run(setup: &Setup, cpus: u32, monitor: &Monitor) -> Result<Vec<Row>> {
    let both = |workload: WorkloadId| Treatment::Set(workload, Setting::Fifo);
    let treatments = [
        ("server alone", Treatment::Nothing, false),
        ("plain Linux", Treatment::Nothing, true),
        ("server SCHED_FIFO", both(SERVER), true),
        ("overloaded one SCHED_FIFO", both(ANTAGONIST), true),
        ("Quell guard", Treatment::Policy("guard"), true),
    ];
    treatments
        .into_iter()
        .map(|(name, treatment, overload)| measure(name, treatment, overload, setup, cpus, monitor))
        .collect()
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
        let overloaded = Antagonist::start("cpu", 2 * cpus, at_most)?;
        let rest = CpuCount::whole(cpus - setup.server_threads);
        workloads.push(workload("overloaded", Class::LatencyCritical, rest, overloaded.pid()));
        Some(overloaded)
    } else {
        None
    };
    let (load, decisions) = treat::under(treatment, workloads, || Ok(load::run_watched(&spec, monitor)?))?;
    let overloaded_cpus = overloaded.map(|process| process.end().map(|report| report.cpus)).transpose();
    let overloaded_cpus = overloaded_cpus.with_context(|| format!("in '{name}'"))?;
    Ok(Row { treatment: name, load, overloaded_cpus, decisions })
}

/// The comparison.
pub fn text(rows: &[Row], cpus: u32) -> String {
    let cells = rows.iter().map(|row| {
        let at = |q| human::nanoseconds(row.load.latency.at(q));
        let got = row.overloaded_cpus.map_or("–".into(), |cpus| format!("{cpus:.2}"));
        vec![row.treatment.to_owned(), at(0.5), at(0.99), at(0.999), human::rate(row.load.served_per_s), got]
    });
    let heads = ["", "p50", "p99", "p99.9", "served", "overloaded one's CPUs"];
    format!("memcached beside a latency-critical workload of {} spinning threads\n{}\n", 2 * cpus, table(heads, cells))
}
