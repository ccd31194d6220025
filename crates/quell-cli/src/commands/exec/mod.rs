//! `quell exec`: a command as a managed workload.

mod command;
mod held;

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use quell_linux::Roots;
use quell_linux::cgroup::Controller;
use quell_model::{Class, CpuCount, Workload};

use super::managed::{self, Asked, FAILED, Terms};
use command::Started;

/// Run a command as a managed workload, under a policy, until it ends
///
/// The command executes its program when the policy's first plan is in force, so that it counts the CPUs that it is to have.
/// Its processes and threads are managed from the start, those still to be born within 20 ms. When it ends, or Quell is
/// killed, everything is put back; in the latter case the command goes on unmanaged. What outlives the command (a daemon) is
/// a child of Quell's, not of process 1 (PR_SET_CHILD_SUBREAPER): it remains managed until it ends, or until Ctrl-C. Several
/// commands that are run like this do not know of each other: use `quell run` for what must add up. What runs already is
/// protected by `quell protect`.
///
/// Exit status: the command's own, 128 and the signal's number if one killed it; 125 if Quell failed, 126 if the command
/// cannot be executed, 127 if there is none.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    asked: Asked,
    /// CPUs requested; for lc these are guaranteed. May be fractional [default: its demand, followed while it runs]
    #[arg(long, value_name = "N")]
    cpus: Option<CpuCount>,
    /// At most this many CPUs, by a cgroup of the command's own; refused where no cpu controller can keep it
    #[arg(long, value_name = "N")]
    limit: Option<CpuCount>,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A command has shown no demand yet: it begins with a CPU.
const AT_FIRST: CpuCount = CpuCount::whole(1);

impl Arguments {
    fn workload(&self) -> Result<Workload> {
        let class = self.asked.class();
        let most = self.limit.unwrap_or(AT_FIRST);
        let at_first = if class == Class::LatencyCritical { AT_FIRST.min(most) } else { CpuCount::ZERO };
        let workload = Workload {
            limit: self.limit,
            reservation: self.asked.reservation(),
            ..Workload::new(self.asked.name_or(&self.command[0]), class, self.cpus.unwrap_or(at_first))
        };
        workload.check()?;
        Ok(workload)
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let status = start(arguments).unwrap_or_else(|error| {
        eprintln!("quell: {error:#}");
        FAILED
    });
    Ok(ExitCode::from(status))
}

fn start(arguments: &Arguments) -> Result<u8> {
    let (workload, policy) = (arguments.workload()?, arguments.asked.policy("guard")?);
    let follows = arguments.cpus.is_none() && workload.is_lc();
    let terms = Terms { workload, policy, keeps_orphans: true, follows, say: arguments.asked.say() };
    managed::under_guardian(&terms, &mut |worker| {
        let Some(limit) = arguments.limit else {
            return Ok(Started::new(&arguments.command, worker)?.map(|it| (it, None)));
        };
        // Another process namespace on the same cgroups has the same numbers.
        let name = format!("quell-exec-{}-{:x}", std::process::id(), quell_linux::now().0);
        let found = Controller::find(&Roots::default(), &name);
        let controller = found.map_err(|why| anyhow!("--limit {limit} cannot be kept: {why}"))?;
        Ok(Started::new(&arguments.command, worker)?.map(|it| (it, Some(controller))))
    })
}
