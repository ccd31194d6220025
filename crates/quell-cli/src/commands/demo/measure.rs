//! One phase, once: start server and antagonist, treat them, load the server.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use quell_bench::antagonist::{AntagonistSpec, Kind};
use quell_bench::load::{self, LoadSpec, Monitor};
use quell_command::programs::antagonist::{Antagonist, Asked};
use quell_command::programs::server::{self, Server};
use quell_model::{SchedClass, amount};

use super::others::Ticks;
use super::result::Run;
use super::scene::{Part, Phase};
use super::{aside, treat, waited};

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
            Kind::Cpu => amount(threads, "spinning thread", "spinning threads"),
            other => format!("{threads} {} {}", other.name(), if threads == 1 { "thread" } else { "threads" }),
        }
    }
}

/// Runs one phase.
pub fn run(phase: &Phase, setup: &Setup, kind: Kind, monitor: &Monitor) -> Result<Run> {
    let [server_spec, beside @ ..] = &phase.parts[..] else { bail!("a scene without a server") };
    let begun = Ticks::now(Path::new("/proc"));
    let server = Server::start(server::Kind::Memcached, server_spec.threads, SchedClass::NORMAL)?;
    let spec = LoadSpec { target: server.address().parse()?, ..setup.load.clone() };
    let pid = server.pid();
    let mut workloads = vec![server_spec.workload(pid)];
    let mut antagonist = None;
    for of in beside {
        let at_most = 2 * Duration::from_nanos(spec.warmup_ns + spec.duration_ns + spec.drain_ns);
        let started = Antagonist::start(asked(of, kind), at_most)?.begun()?;
        workloads.push(of.workload(started.pid()));
        antagonist = Some(started);
    }
    let load = || Ok(load::run_watched(&spec, monitor)?);
    let work = || aside::of(pid, || waited::during(pid, load));
    let end = |((load, waited), kept_off)| {
        let antagonist = antagonist.map(Antagonist::end).transpose()?;
        drop(server);
        Ok((load, waited, kept_off, antagonist))
    };
    let ((load, server_waited, generator_kept_off, antagonist), decisions) = treat::under(phase, workloads, work, end)?;
    // Server and antagonist have ended: their time counts as this process's.
    let others_cpus = begun.zip(Ticks::now(Path::new("/proc"))).map(|(begun, ended)| ended.others_since(&begun));
    Ok(Run { load, antagonist, generator_kept_off, others_cpus, server_waited, decisions })
}

/// An antagonist for a workload. It is made real-time when it works, and is anything else from its start.
pub fn asked(part: &Part, kind: Kind) -> Asked {
    let class = if part.scheduling.is_real_time() { SchedClass::NORMAL } else { part.scheduling };
    Asked { kind, threads: part.threads, phase: None, class }
}
