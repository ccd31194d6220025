//! `quell exec`: a command as a managed workload.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use quell_agent::AgentError;
use quell_agent::drive::while_driving;
use quell_agent::guardian::{News, Options, RunDir, Worker, supervise};
use quell_agent::stack::{Layer, Stack, Witness};
use quell_linux::write::Journal;
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Class, CpuCount, Host, KnobKind, NoteKind, Policy, Reservation, Selector, View, Workload};
use quell_policy::AnyPolicy;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// Quell's own loop runs above the real-time threads that it limits.
const OWN_PRIORITY: u8 = 2;

/// Run a command as a managed workload, under a policy, until it ends.
///
/// The command's processes and threads are managed from the start, those still to be born within 20 ms. When it ends, or
/// Quell is killed, everything is put back; in the latter case the command goes on unmanaged. Several commands that are
/// run like this do not know of each other: use `quell run` for what must add up. Exit status: the command's own; 127 if
/// there is no such command.
#[derive(Args)]
pub struct Arguments {
    /// lc (latency-critical) or be (best-effort)
    #[arg(long, value_enum)]
    class: ClassName,
    /// CPUs requested; for lc these are guaranteed. May be fractional
    #[arg(long, default_value = "0", value_name = "N")]
    cpus: CpuCount,
    /// At most so many CPUs
    #[arg(long, value_name = "N")]
    limit: Option<CpuCount>,
    /// The request means whole CPUs of its own (for rkube)
    #[arg(long)]
    strict: bool,
    /// The policy; `quell doctor` says which work here
    #[arg(long, default_value = "guard")]
    policy: String,
    /// A parameter of the policy
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The workload's name [default: the command's]
    #[arg(long)]
    name: Option<String>,
    /// Say every decision on standard error
    #[arg(long, short)]
    verbose: bool,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// [`Class`] on the command line.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClassName {
    /// Latency-critical
    Lc,
    /// Best-effort
    Be,
}

impl Arguments {
    fn workload(&self) -> Result<Workload> {
        let class = match self.class {
            ClassName::Lc => Class::LatencyCritical,
            ClassName::Be => Class::BestEffort,
        };
        let name = self.name.clone().unwrap_or_else(|| self.command[0].clone());
        let workload = Workload {
            limit: self.limit,
            reservation: if self.strict { Reservation::Strict } else { Reservation::Standard },
            ..Workload::new(name, class, self.cpus)
        };
        workload.check()?;
        Ok(workload)
    }

    fn policy(&self) -> Result<AnyPolicy> {
        let mut parameters = serde_json::Map::new();
        for text in &self.set {
            let (name, value) = text
                .split_once('=')
                .with_context(|| format!("--set {text}: expected NAME=VALUE, such as run_budget=20ms"))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            parameters.insert(name.to_owned(), value);
        }
        Ok(AnyPolicy::build(&self.policy, serde_json::Value::Object(parameters))?)
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workload = arguments.workload()?;
    let policy = arguments.policy()?;
    // The guardian's claim; the work itself is done in its child (see `quell_agent::guardian`).
    let claim = RunDir::locate(None)?.claim(&format!("exec-{}", std::process::id()))?;
    let mut options = Options::new(claim);
    options.keep_orphans = true;
    options.news = Box::new(|news: News<'_>| {
        if let News::Died { how, .. } = news {
            eprintln!("quell: {how}; everything is put back, the command goes on unmanaged");
        }
    });
    let ending = supervise(options, &mut |worker, journal| {
        let managed = manage(arguments, workload.clone(), policy.clone(), worker, journal);
        managed.unwrap_or_else(|error| {
            eprintln!("quell: {error:#}");
            1
        })
    })?;
    Ok(ExitCode::from(ending.exit_status()))
}

/// Starts the command and manages it until it ends or the guardian is gone; returns the exit status.
fn manage(
    arguments: &Arguments,
    mut workload: Workload,
    policy: AnyPolicy,
    worker: &Worker,
    journal: Box<dyn Journal>,
) -> Result<u8> {
    let mut host = LinuxHost::new(Roots::default(), HostOptions::default())?.with_journal(journal);
    let fidelity = host.capabilities().fidelity(policy.describe());
    if !fidelity.missing.is_empty() {
        bail!(AgentError::Unfit { policy: policy.describe().name, missing: fidelity.missing });
    }
    for limit in fidelity.limits.iter().filter(|_| arguments.verbose) {
        eprintln!("quell: {limit}");
    }
    let real_time = policy.describe().knobs.iter().any(|need| need.what == KnobKind::Class);
    let topology = host.topology();
    let pool = topology.all();
    let mut stack = Stack::new(vec![Layer::new(policy, None)], View::new(topology), pool)?;
    let mut voice = Voice { verbose: arguments.verbose };

    let signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT]).context("cannot catch signals")?;
    let Some(mut child) = spawn(&arguments.command)? else { return Ok(127) };
    let pid = Pid::from_child(&child);
    thread::Builder::new().name("quell-signals".into()).spawn(move || forward(signals, pid))?;
    workload.selectors = vec![Selector::Pid(child.id().cast_signed())];
    let managed = host.attach(workload).map_err(anyhow::Error::from).and_then(|_| {
        let priority = real_time.then_some(OWN_PRIORITY);
        while_driving(&mut stack, &mut host, &mut voice, priority, || end_of(&mut child, worker))?
    });
    if managed.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    for left in host.restore().left {
        eprintln!("quell: not put back: {}", left.why);
    }
    Ok(managed?.map_or(1, exit_status))
}

/// Waits for the command's end; None if the work has to stop before.
fn end_of(child: &mut Child, worker: &Worker) -> Result<Option<ExitStatus>> {
    let handle = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).context("cannot watch the command")?;
    let patience = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !worker.stop().load(Ordering::Acquire) {
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(Some(child.wait()?)),
            Err(error) => return Err(error).context("cannot wait for the command"),
        }
    }
    Ok(child.try_wait()?)
}

/// Hands signals on to the command. The terminal sends it SIGINT and SIGQUIT by itself.
fn forward(mut signals: Signals, command: Pid) {
    for signal in &mut signals {
        let forwarded = match signal {
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            _ => continue,
        };
        let _ = kill_process(command, forwarded);
    }
}

fn spawn(command: &[String]) -> Result<Option<Child>> {
    match Command::new(&command[0]).args(&command[1..]).spawn() {
        Ok(child) => Ok(Some(child)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("quell: there is no command '{}'", command[0]);
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("cannot run '{}'", command[0])),
    }
}

fn exit_status(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

/// Says on standard error what the user should know.
struct Voice {
    verbose: bool,
}

impl Witness for Voice {
    fn turned(&mut self, view: &View, layers: &[Layer]) {
        for layer in layers.iter().filter(|layer| layer.stepped()) {
            for note in layer.plan.notes.iter().filter(|note| self.verbose || note.kind != NoteKind::Because) {
                let about = note.about.and_then(|id| view.workload(id)).map_or("", |workload| &workload.name);
                let separator = if about.is_empty() { "" } else { ": " };
                eprintln!("quell: {about}{separator}{}", note.text);
            }
        }
    }
}
