//! One phase, once: start server and antagonist, treat them, load the server.

use std::time::Duration;

use anyhow::Result;
use quell_bench::antagonist::{AntagonistSpec, Kind};
use quell_bench::load::{self, LoadSpec, Monitor};
use quell_model::{Class, CpuCount, Reservation, Selector, Workload};

use super::antagonist::Antagonist;
use super::aside;
use super::phase::{Phase, Treatment};
use super::result::Run;
use super::server::Server;
use super::treat;

/// The common set-up of all phases.
pub struct Setup {
    /// memcached's worker threads, and the CPUs that it requests.
    pub server_threads: u32,
    /// The antagonist.
    pub antagonist: AntagonistSpec,
    /// The load; its target is set anew in every phase.
    pub load: LoadSpec,
}

impl Setup {
    /// The neighbours, for people: `4 spinning threads`.
    pub fn neighbours(&self) -> String {
        let threads = self.antagonist.threads;
        match self.antagonist.kind {
            Kind::Cpu => format!("{threads} spinning threads"),
            other => format!("{threads} {} threads", other.name()),
        }
    }
}

/// Runs one phase.
pub fn run(phase: &Phase, setup: &Setup, monitor: &Monitor) -> Result<Run> {
    let server = Server::start(setup.server_threads)?;
    let spec = LoadSpec { target: server.address().parse()?, ..setup.load.clone() };
    let pid = server.pid();
    let mut workloads = vec![server_workload(pid, setup, phase.treatment)];
    let antagonist = if phase.antagonist {
        let at_most = 2 * Duration::from_nanos(spec.warmup_ns + spec.duration_ns + spec.drain_ns);
        let (kind, threads) = (setup.antagonist.kind, setup.antagonist.threads);
        let antagonist = Antagonist::start(kind, threads, at_most, phase.treatment == Treatment::Idle)?;
        workloads.push(workload("antagonist", Class::BestEffort, CpuCount::ZERO, antagonist.pid()));
        Some(antagonist)
    } else {
        None
    };
    let work = || aside::of(pid, || Ok(load::run_watched(&spec, monitor)?));
    let end = |(load, kept_off)| {
        let antagonist = antagonist.map(Antagonist::end).transpose()?;
        drop(server);
        Ok((load, kept_off, antagonist))
    };
    let ((load, generator_kept_off, antagonist), decisions) = treat::under(phase.treatment, workloads, work, end)?;
    Ok(Run { load, antagonist, generator_kept_off, decisions })
}

/// A process and its descendants as a workload.
pub fn workload(name: &str, class: Class, cpus: CpuCount, pid: i32) -> Workload {
    Workload { selectors: vec![Selector::Pid(pid)], ..Workload::new(name, class, cpus) }
}

fn server_workload(pid: i32, setup: &Setup, treatment: Treatment) -> Workload {
    let cpus = CpuCount::whole(setup.server_threads);
    let strict = treatment == Treatment::Policy("rkube");
    Workload {
        reservation: if strict { Reservation::Strict } else { Reservation::Standard },
        ..workload("memcached", Class::LatencyCritical, cpus, pid)
    }
}
