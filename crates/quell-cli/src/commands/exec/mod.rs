//! `quell exec`: a command as a managed workload.

mod command;
mod held;
mod leased;
pub mod measured;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args};
use quell_command::{parameters, units};
use quell_linux::Roots;
use quell_linux::cgroup::Controller;
use quell_linux::target::quoted;
use quell_model::{Class, CpuCount, Nanos, Policy as _, Workload};
use quell_policy::AnyPolicy;

use super::agent_socket::AgentSocket;
use super::managed::{self, Asked, FAILED, Terms};
use super::protect::{self, Sources};
use command::Started;
use measured::Measured;

/// As clap has it for words that fit nothing.
const WRONG_WORDS: u8 = 2;

/// Run a command as a managed workload, under a policy, until it ends
///
/// The policy is guard unless --policy names one: a command that has not begun has shown nothing to judge by. The command executes
/// its program when the policy's first plan is in force, so that the program sees the CPUs that it is going to have. Its processes and threads are managed from the start, new ones within 20 ms. When it ends, or Quell is
/// killed, everything is put back; in the latter case the command goes on unmanaged. Where an agent runs, the agent does it, for as
/// long as this command lasts. What a latency-critical command waits for is measured in its first seconds, by a probe (--url), by its own
/// histogram (--histogram), or else by the time that its threads wait for a CPU; it has no before. Quell adopts what outlives the command (a
/// daemon), as PR_SET_CHILD_SUBREAPER: it remains managed until it ends, or until Ctrl-C. Commands
/// that are run like this are not coordinated with each other: use `quell run` for that. What runs already is protected by `quell protect`.
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
    #[command(flatten)]
    sources: Sources,
    /// Measure for this long from its start, and report it on standard error; 0: not at all
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration)]
    measure: Nanos,
    #[command(flatten)]
    agent: AgentSocket,
    /// At most this many CPUs, by a cgroup of the command's own; refused where no cpu controller can keep it
    #[arg(long, value_name = "N")]
    limit: Option<CpuCount>,
    /// Words that are to come after --
    #[arg(hide = true)]
    misplaced: Vec<String>,
    /// The command
    #[arg(last = true, required_unless_present = "misplaced", value_name = "COMMAND")]
    command: Vec<String>,
}

/// A command has shown no demand yet: it begins with a CPU.
const AT_FIRST: CpuCount = CpuCount::whole(1);

impl Arguments {
    /// What is measured: nothing of what is best-effort, unless that was asked for.
    fn measured(&self, terms: &Terms) -> Option<Measured> {
        let is_wanted = terms.workload.is_lc() || !self.sources.are_none();
        (is_wanted && self.measure > Nanos::ZERO && !terms.say.quiet).then(|| Measured {
            sources: self.sources.clone(),
            length: self.measure,
            name: terms.workload.name.clone(),
            policy: terms.policy.describe().name,
            program: Path::new(&self.command[0]).file_name().unwrap_or_default().to_string_lossy().into_owned(),
        })
    }

    fn workload(&self, policy: &AnyPolicy) -> Result<Workload> {
        let class = self.asked.class();
        let most = self.limit.unwrap_or(AT_FIRST);
        let at_first = if class == Class::LatencyCritical { AT_FIRST.min(most) } else { CpuCount::ZERO };
        let cpus = self.cpus.unwrap_or(at_first);
        let workload = Workload {
            limit: self.limit,
            reservation: self.asked.reservation(policy, cpus),
            ..Workload::new(self.asked.name_or(&self.command[0]), class, cpus)
        };
        workload.check()?;
        Ok(workload)
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !arguments.misplaced.is_empty() {
        let words = [&arguments.misplaced[..], &arguments.command[..]].concat();
        eprintln!("quell: {}", misplaced(&words));
        return Ok(ExitCode::from(WRONG_WORDS));
    }
    let status = start(arguments).unwrap_or_else(|error| {
        eprintln!("quell: {error:#}");
        FAILED
    });
    Ok(ExitCode::from(status))
}

/// Where a command with options of its own has no `--` before it: what was meant. `words` is the whole command line, and `parse`
/// reads one.
pub fn hint(words: &[String], parse: impl Fn(&[String]) -> clap::error::Result<ArgMatches>) -> Option<String> {
    let error = parse(words).err().filter(|error| error.kind() == ErrorKind::UnknownArgument)?;
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    let at =
        words.iter().position(|word| word.split('=').next() == Some(unknown) || word.starts_with(unknown.as_str()))?;
    // What is read before it is a command, and no option of exec's.
    let before = parse(&words[..at]).ok()?;
    let command = before.subcommand_matches("exec")?.get_many::<String>("misplaced")?;
    Some(misplaced(&command.chain(&words[at..]).cloned().collect::<Vec<_>>()))
}

/// What a command without `--` was meant as.
fn misplaced(words: &[String]) -> String {
    let command = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let program = quoted(&words[0]);
    format!(
        "the command comes after --: `quell exec -- {command}` starts it; `quell protect {program}` is for what runs already"
    )
}

fn start(arguments: &Arguments) -> Result<u8> {
    let policy = arguments.asked.policy("guard")?;
    let workload = arguments.workload(&policy)?;
    // An ordinary user may not use the agent: it is then as if there were none.
    let agent = match rustix::process::geteuid().is_root() {
        true => protect::leased::agent(&arguments.agent)?,
        false => None,
    };
    let follows = (arguments.cpus.is_none() && workload.is_lc()).then(|| managed::steps_of(&policy));
    let terms = Terms {
        command: "exec",
        workload,
        policy,
        keeps_orphans: true,
        follows,
        say: arguments.asked.say(),
        again: false,
    };
    let new = |stop: &_| Started::new(&arguments.command, stop, arguments.measured(&terms));
    if let Some(agent) = agent {
        let set = parameters::map(arguments.asked.parameters())?;
        return leased::run(&agent, &terms, set, &new);
    }
    managed::under_guardian(&terms, &mut |worker| {
        let Some(limit) = arguments.limit else {
            return Ok(new(worker.stop())?.map(|it| (it, None)));
        };
        // Another process namespace on the same cgroups has the same numbers.
        let name = format!("quell-exec-{}-{:x}", std::process::id(), quell_linux::now().0);
        let found = Controller::find(&Roots::default(), &name);
        let controller = found.map_err(|why| anyhow!("--limit {limit} cannot be kept: {why}"))?;
        Ok(new(worker.stop())?.map(|it| (it, Some(controller))))
    })
}
