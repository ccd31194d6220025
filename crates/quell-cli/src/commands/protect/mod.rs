//! `quell protect`: what runs already, protected until Ctrl-C, with its latency before and after.

mod advice;
mod alone;
mod before;
mod course;
pub mod keep;
mod leased;
mod output;
mod target;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use clap::Args;
use quell_command::units;
use quell_model::{CpuCount, Nanos, Policy as _, Workload};

use signal_hook::consts::{SIGINT, SIGTERM};

use super::agent_socket::AgentSocket;
use super::managed::{Asked, demand};
use course::Course;
use target::Subject;

/// Protect what runs already, until Ctrl-C; say what that did to its latency
///
/// TARGET is a unit (nginx.service), a container (its id), a cgroup (/system.slice/nginx.service), a process (4711), or a
/// program's name (nginx). The processes of one unit, of one container or of one tree are one target; where a name means
/// several, they are listed. It is measured for a while, then protected, then measured again: by a probe (--url), by its own
/// histogram (--histogram), or else by the time that its threads wait for a CPU. Where an agent runs, the agent does it, for
/// as long as this command lasts. Ctrl-C puts everything back, and so does the end of this command, whatever ends it.
#[derive(Args)]
pub struct Arguments {
    /// What to protect: a unit, container, cgroup, process or program. Several are one workload
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    #[command(flatten)]
    asked: Asked,
    /// CPUs requested; for lc these are guaranteed. May be fractional [default: its demand, followed while it runs]
    #[arg(long, value_name = "N")]
    cpus: Option<CpuCount>,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = units::positive_duration)]
    length: Option<Nanos>,
    /// Measure for this long before, and again after; 0: not at all
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration)]
    measure: Nanos,
    /// Measure latency by a probe: http://127.0.0.1:80/, memcached://127.0.0.1 or redis://127.0.0.1
    #[arg(long, value_name = "URL", conflicts_with = "histogram")]
    url: Option<String>,
    /// Measure latency by its own Prometheus histogram: 127.0.0.1:9102/metrics#http_request_duration_seconds
    #[arg(long, value_name = "PAGE")]
    histogram: Option<String>,
    /// Write it into the configuration of the agent, for good; `quell disable NAME` takes it out
    #[arg(long, conflicts_with_all = ["length", "url", "histogram"])]
    keep: bool,
    /// The configuration for --keep
    #[arg(long, value_name = "FILE", default_value = quell_agent::config::DEFAULT_PATH, requires = "keep")]
    config: PathBuf,
    #[command(flatten)]
    agent: AgentSocket,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Protects.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    // A terminal sends Ctrl-C to guardian and worker: one that comes twice must not kill.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    let subject = Subject::find(&arguments.targets)?;
    let agent = leased::agent(&arguments.agent)?;
    if let Some(agent) = &agent {
        leased::refuse_managed(agent, &subject)?;
    }
    let here = advice::Here::look(agent.is_none(), arguments.asked.policys_name(), &subject)?;
    let most = demand::most(here.cpus);
    if let Some(cpus) = arguments.cpus.filter(|cpus| *cpus > most) {
        let has = quell_model::amount(here.cpus as usize, "CPU", "CPUs");
        bail!(
            "--cpus {cpus} would take all of this machine, which has {has}: run `quell protect {} --cpus {most}`",
            subject.words
        );
    }
    let Some(before) = before::measure(arguments, &subject, &stop)? else { return Ok(ExitCode::from(130)) };
    let decided = here.decide(arguments, &subject, &before)?;
    let mut workload = Workload {
        reservation: arguments.asked.reservation(),
        ..Workload::new(arguments.asked.name_or(&subject.name), arguments.asked.class(), decided.cpus)
    };
    workload.selectors.clone_from(&subject.selectors);
    workload.check()?;
    if arguments.keep {
        let set = arguments.asked.parameters();
        return keep::keep(
            &arguments.config,
            &workload,
            &decided.policy,
            &subject,
            set,
            &arguments.agent,
            arguments.json,
        );
    }
    let follows = arguments.cpus.is_none() && workload.is_lc();
    let course = Course::new(arguments, &subject, &workload, decided.policy.describe().name, before, here.cpus);
    match agent {
        Some(agent) => leased::run(&agent, &course, arguments.asked.parameters(), follows, &stop),
        None => alone::run(course, decided.policy, follows),
    }
}
