//! One phase, once: start server and antagonist, treat them, load the server.

use std::time::Duration;

use anyhow::Result;
use quell_bench::load::{self, LoadSpec, Monitor};
use quell_model::{Class, CpuCount, Reservation, Selector, Workload};

use super::antagonist::Antagonist;
use super::phase::{Phase, Treatment};
use super::result::Run;
use super::server::Server;
use super::treat;

/// What is the same in all phases.
pub struct Setup {
    /// memcached's worker threads, and the CPUs that it requests.
    pub server_threads: u32,
    /// The kind of antagonist.
    pub antagonist: String,
    /// Its threads.
    pub antagonist_threads: u32,
    /// The load; its target is set anew in every phase.
    pub load: LoadSpec,
}

/// Runs one phase.
pub fn run(phase: &Phase, setup: &Setup, monitor: &Monitor) -> Result<Run> {
    let server = Server::start(setup.server_threads)?;
    let spec = LoadSpec { target: server.address().parse()?, ..setup.load.clone() };
    let mut workloads = vec![server_workload(&server, setup, phase.treatment)];
    let antagonist = if phase.antagonist {
        let at_most = 2 * Duration::from_nanos(spec.warmup_ns + spec.duration_ns + spec.drain_ns);
        let antagonist = Antagonist::start(&setup.antagonist, setup.antagonist_threads, at_most)?;
        workloads.push(workload("antagonist", Class::BestEffort, CpuCount::ZERO, antagonist.pid()));
        Some(antagonist)
    } else {
        None
    };
    let (load, decisions) = treat::under(phase.treatment, workloads, || Ok(load::run_watched(&spec, monitor)?))?;
    let antagonist = antagonist.map(Antagonist::end).transpose()?;
    Ok(Run { load, antagonist, decisions })
}

/// A process and its descendants as a workload.
pub fn workload(name: &str, class: Class, cpus: CpuCount, pid: i32) -> Workload {
    Workload { selectors: vec![Selector::Pid(pid)], ..Workload::new(name, class, cpus) }
}

fn server_workload(server: &Server, setup: &Setup, treatment: Treatment) -> Workload {
    let cpus = CpuCount::whole(setup.server_threads);
    let strict = treatment == Treatment::Policy("rkube");
    Workload {
        reservation: if strict { Reservation::Strict } else { Reservation::Standard },
        ..workload("memcached", Class::LatencyCritical, cpus, server.pid())
    }
}
