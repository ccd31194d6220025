//! `quell recommend`: which policy suits this machine and, where one is named, a service.

mod looks;
mod subject;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use quell_linux::procfs::ProcFs;
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Capabilities, Class, CpuCount, Host, Nanos, amount};
use quell_policy::recommend::{Advice, Contended, Looks, MachineFacts, OwnScheduler, WorkloadFacts, recommend};
use quell_report::screen::Screen;
use serde::Serialize;

use quell_command::{output, progress, signals, units};

pub use text::text;

/// Say which policy suits this machine or a service, why, and the line to paste
///
/// Watches and changes nothing. With TARGET it looks for a few seconds at how long the service's threads run without a pause, what
/// they wait for a CPU, and how fast their load moves. What only its operator can say has an option.
#[derive(Args)]
pub struct Arguments {
    /// A unit, container, cgroup, process or program; left out: the machine alone
    target: Option<String>,
    /// How long to look
    #[arg(long = "for", default_value = "3s", value_name = "TIME", value_parser = units::positive_duration, requires = "target", allow_negative_numbers = true)]
    length: Nanos,
    /// It is best-effort itself
    #[arg(long, requires = "target")]
    be: bool,
    /// CPUs that it is to have [default: what it asks for now]
    #[arg(long, value_name = "N", requires = "target")]
    cpus: Option<CpuCount>,
    /// The batch work beside it may just get less
    #[arg(long, requires = "target")]
    batch_may_get_less: bool,
    /// Its demand is known, as tasks or as a rate of requests
    #[arg(long, requires = "target")]
    known_demand: bool,
    /// What it and its neighbours compete for
    #[arg(long, value_enum, value_name = "WHAT", requires = "target")]
    contended: Option<ContendedName>,
    /// Also say what was found, what was not known, and what would suit but is not to be had here
    #[arg(long)]
    why: bool,
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

/// The facts of this machine, of which the stock host has these capabilities. As root the kernel is asked whether it takes Quell's
/// scheduler.
pub fn this_machine(stock: &Capabilities, cpus: u32) -> MachineFacts {
    let own = match quell_scx::ready() {
        Err(error) => OwnScheduler::No(error.to_string()),
        Ok(()) => quell_daemon::refusal().map_or(OwnScheduler::Usable, OwnScheduler::No),
    };
    MachineFacts::new(cpus, own, |policy| quell_daemon::capabilities_for(stock, policy))
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let roots = Roots::default();
    let mut proc = ProcFs::open(&roots.proc)?;
    let subject = arguments.target.as_deref().map(|target| subject::find(&mut proc, target)).transpose()?;
    let stock = LinuxHost::new(roots.clone(), HostOptions::default())?.capabilities();
    let machine = this_machine(&stock, quell_linux::doctor::examine(&roots)?.online.len() as u32);
    let (mut workload, mut looks) = (None, None);
    if let Some(subject) = subject {
        let class = if arguments.be { Class::BestEffort } else { Class::LatencyCritical };
        let mut facts = WorkloadFacts {
            cpus: arguments.cpus,
            demand_known: arguments.known_demand.then_some(true),
            batch_may_get_less: arguments.batch_may_get_less.then_some(true),
            contended: arguments.contended.map(|what| match what {
                ContendedName::Cpu => Contended::Cpu,
                ContendedName::Cache => Contended::Cache,
                ContendedName::Bandwidth => Contended::Bandwidth,
            }),
            ..WorkloadFacts::unknown(subject.target(), subject::selector(&subject), class)
        };
        let stop = Arc::new(AtomicBool::new(false));
        signals::set_on_interrupt(&stop)?;
        let bar = progress::of_time(arguments.length, "looking");
        let found = looks::look(&mut proc, &subject, arguments.length, &stop, &|over| bar.set_position(over));
        bar.finish_and_clear();
        looks = found?;
        match &looks {
            Some(looks) => looks.write_into(&mut facts),
            None => bail!("{} ended before anything was found out: name what runs", subject.name),
        }
        if let Some(Contended::Cache | Contended::Bandwidth) = facts.contended {
            facts.disturbed = Some(true);
        }
        workload = Some(facts);
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
