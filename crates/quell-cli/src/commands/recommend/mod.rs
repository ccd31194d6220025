//! `quell recommend`: which policy suits this machine and, where one is named, a service.

mod text;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use quell_agent::api::wire::Status;
use quell_linux::procfs::ProcFs;
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Class, CpuCount, Host, Nanos, amount};
use quell_policy::recommend::{Advice, Contended, Looks, MachineFacts, OwnScheduler, WorkloadFacts, recommend};
use quell_report::screen::Screen;
use serde::Serialize;

use quell_command::{output, progress, signals, units};

use super::agent_socket::AgentSocket;
use super::facts;
use super::protect::keep::of_groups;
use super::protect::target::Subject;
pub use text::text;

/// Recommend a policy for this machine or a service, with the reasons and the command to run
///
/// Watches and changes nothing. With TARGET it looks for a few seconds at how long the service's threads run without a pause, what
/// they wait for a CPU, and how fast their load moves. What only its operator knows has an option.
#[derive(Args)]
pub struct Arguments {
    /// A unit, container, cgroup, process or program [default: this machine alone]
    target: Option<String>,
    /// How long to observe
    #[arg(long = "for", default_value = "3s", value_name = "TIME", value_parser = units::positive_duration, requires = "target", allow_negative_numbers = true)]
    length: Nanos,
    /// It is best-effort itself
    #[arg(long, requires = "target")]
    be: bool,
    /// CPUs to reserve for it [default: its demand now]
    #[arg(long, value_name = "N", requires = "target")]
    cpus: Option<CpuCount>,
    /// Batch work beside it may be given less
    #[arg(long, requires = "target")]
    batch_may_get_less: bool,
    /// Its demand is known, as tasks or as a rate of requests
    #[arg(long, requires = "target")]
    known_demand: bool,
    /// What it and its neighbours compete for
    #[arg(long, value_enum, value_name = "WHAT", requires = "target")]
    contended: Option<ContendedName>,
    /// Also report what was observed, what is unknown, and what would suit but does not work here
    #[arg(long)]
    why: bool,
    #[command(flatten)]
    agent: AgentSocket,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// [`Contended`] on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum ContendedName {
    /// CPU time
    Cpu,
    /// The last-level cache
    Cache,
    /// Memory bandwidth
    Bandwidth,
}

/// Everything that the command says.
#[derive(Serialize)]
struct Report {
    units: &'static str,
    #[serde(flatten)]
    advice: Advice,
    machine: MachineFacts,
    workload: Option<WorkloadFacts>,
    looks: Option<Looks>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let roots = Roots::default();
    let mut proc = ProcFs::open(&roots.proc)?;
    let subject = arguments.target.clone().map(|target| Subject::find("recommend", &[target])).transpose()?;
    let stock = LinuxHost::new(roots.clone(), HostOptions::default())?.capabilities();
    let cpus = quell_linux::doctor::examine(&roots)?.online.len() as u32;
    let machine = facts::this_machine(&stock, cpus, !manages(&arguments.agent));
    let (mut workload, mut looks) = (None, None);
    if let Some(subject) = subject {
        let class = if arguments.be { Class::BestEffort } else { Class::LatencyCritical };
        let mut known = WorkloadFacts {
            cpus: arguments.cpus,
            demand_known: arguments.known_demand.then_some(true),
            batch_may_get_less: arguments.batch_may_get_less.then_some(true),
            contended: arguments.contended.map(|what| match what {
                ContendedName::Cpu => Contended::Cpu,
                ContendedName::Cache => Contended::Cache,
                ContendedName::Bandwidth => Contended::Bandwidth,
            }),
            ..WorkloadFacts::unknown(subject.words.clone(), of_groups(&subject.selectors), class)
        };
        let stop = Arc::new(AtomicBool::new(false));
        signals::set_on_interrupt(&stop)?;
        let bar = progress::of_time(arguments.length, "observing");
        let found =
            facts::look(&mut proc, &subject.found.iter().collect::<Vec<_>>(), arguments.length, &stop, &|over| {
                bar.set_position(over)
            });
        bar.finish_and_clear();
        looks = found?;
        match &looks {
            Some(looks) => looks.write_into(&mut known),
            None => bail!("{} ended before it could be observed: name a running service", subject.name),
        }
        if let Some(Contended::Cache | Contended::Bandwidth) = known.contended {
            known.disturbed = Some(true);
        }
        workload = Some(known);
    }
    let report =
        Report { units: "times in ns", advice: recommend(&machine, workload.as_ref()), machine, workload, looks };
    if arguments.json {
        output::json_line(&report)?;
    } else {
        writeln!(io::stdout(), "{}", said(&report, arguments.why, &Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Does an agent manage here?
fn manages(socket: &AgentSocket) -> bool {
    let status = socket.client().ok().and_then(|agent| agent.get::<Status>("/v1/status").ok());
    status.is_some_and(|status| status.agent.mode == "run" && status.agent.off.is_none())
}

/// The recommendation, and with `why` what it rests on.
fn said(report: &Report, why: bool, screen: &Screen) -> String {
    let mut lines = vec![text(&report.advice, screen)];
    if !why {
        return lines.concat();
    }
    lines.push(String::new());
    if let Some(looks) = &report.looks {
        lines.push(screen.hang(&text::found(looks), 9));
    }
    let machine = &report.machine;
    let has = |yes: bool| if yes { "yes" } else { "no" };
    let own = match &machine.own_scheduler {
        OwnScheduler::Usable => "yes".to_owned(),
        OwnScheduler::No(why) => format!("no ({why})"),
    };
    lines.push(screen.hang(
        &format!(
            "machine  {}; sched_ext: {own}; counters: {}; resctrl: {}",
            amount(machine.cpus, "CPU", "CPUs"),
            has(machine.counters),
            has(machine.resctrl)
        ),
        9,
    ));
    lines.join("\n")
}
