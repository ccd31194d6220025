//! `quell exec`: a command, or what runs already, as a managed workload.

mod held;
mod subject;
mod voice;

use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use quell_agent::AgentError;
use quell_agent::api::{Client, wire};
use quell_agent::config::unused::unused;
use quell_agent::drive::{LONGEST_SETTLING, while_driving};
use quell_agent::guardian::{News, Options, RunDir, Worker, supervise};
use quell_agent::stack::{self, Layer};
use quell_linux::cgroup::Controller;
use quell_linux::sched::{Kernel, ThreadCalls as _, ThreadClass};
use quell_linux::scheduler::Affinity;
use quell_linux::write::{Conflict, Journal};
use quell_linux::{HostOptions, LimitState, LinuxHost, Roots};
use quell_model::{
    Capabilities, Class, CpuCount, CpuSet, Host, KnobKind, Policy, Reservation, SchedClass, View, Workload, amount,
    foreign,
};
use quell_policy::AnyPolicy;

use subject::{FAILED, Subject};
use voice::{Managed, Voice};

use quell_command::parameters;

/// Quell's own loop runs above the real-time threads that it limits, and at this priority if the policy names none.
const OWN_PRIORITY: u8 = 2;

/// Run a command as a managed workload, under a policy, until it ends; or manage what runs already
///
/// The command executes its program when the policy's first plan is in force, so that it counts the CPUs that it is to have.
/// Its processes and threads are managed from the start, those still to be born within 20 ms. When it ends, or Quell is
/// killed, everything is put back; in the latter case the command goes on unmanaged. What outlives the command (a daemon) is
/// a child of Quell's, not of process 1 (PR_SET_CHILD_SUBREAPER): it remains managed until it ends, or until Ctrl-C. With --pid processes are
/// managed that run already, with their descendants, until they end, or until Ctrl-C, which puts everything back and leaves
/// them running. Several commands that are run like this do not know of each other: use `quell run` for what must add up.
///
/// Exit status: the command's own, 128 and the signal's number if one killed it; 125 if Quell failed, 126 if the command
/// cannot be executed, 127 if there is none. With --pid: 0.
#[derive(Args)]
pub struct Arguments {
    /// lc (latency-critical) or be (best-effort)
    #[arg(long, value_enum)]
    class: ClassName,
    /// CPUs requested; for lc these are guaranteed. May be fractional
    #[arg(long, default_value = "0", value_name = "N")]
    cpus: CpuCount,
    /// At most this many CPUs, by a cgroup of the command's own; refused where no cpu controller can keep it. With --pid a
    /// policy may keep it
    #[arg(long, value_name = "N")]
    limit: Option<CpuCount>,
    /// The request means whole CPUs of its own (for rkube)
    #[arg(long)]
    strict: bool,
    /// The policy; `quell doctor` says which work here
    #[arg(long, default_value = "guard")]
    policy: String,
    /// A parameter of the policy, such as run_budget=20ms; `quell doctor POLICY` lists them
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The workload's name [default: the command's]
    #[arg(long)]
    name: Option<String>,
    /// Manage this process, which runs already, and its descendants. May be repeated
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,
    /// Say every decision on standard error
    #[arg(long, short)]
    verbose: bool,
    /// Do not say on standard error what was set
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// The command
    #[arg(last = true, required_unless_present = "pid", conflicts_with = "pid", value_name = "COMMAND")]
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
        let usual = || match self.pid.first() {
            Some(pid) => subject::name_of(*pid),
            None => self.command[0].clone(),
        };
        let workload = Workload {
            limit: self.limit,
            reservation: if self.strict { Reservation::Strict } else { Reservation::Standard },
            ..Workload::new(self.name.clone().unwrap_or_else(usual), class, self.cpus)
        };
        workload.check()?;
        Ok(workload)
    }

    fn policy(&self) -> Result<AnyPolicy> {
        parameters::policy(&self.policy, &self.set)
    }
}

/// Runs the command, or manages what runs already.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let status = start(arguments).unwrap_or_else(|error| {
        eprintln!("quell: {error:#}");
        FAILED
    });
    Ok(ExitCode::from(status))
}

fn start(arguments: &Arguments) -> Result<u8> {
    let (workload, policy) = (arguments.workload()?, arguments.policy()?);
    arguments.pid.iter().try_for_each(|&pid| subject::check(pid))?;
    // The guardian's claim; the work itself is done in its child (see `quell_agent::guardian`).
    let claim = RunDir::locate(None)?.claim(&format!("exec-{}", std::process::id()))?;
    let mut options = Options::new(claim);
    options.keep_orphans = arguments.pid.is_empty();
    options.news = Box::new(|news: News<'_>| {
        if let News::Died { how, .. } = news {
            eprintln!("quell: {how}; everything is put back, and what was managed goes on unmanaged");
        }
    });
    let ending = supervise(options, &mut |worker, journal| {
        let managed = manage(arguments, workload.clone(), policy.clone(), worker, journal);
        managed.unwrap_or_else(|error| {
            eprintln!("quell: {error:#}");
            FAILED
        })
    })?;
    Ok(ending.exit_status())
}

/// Manages on the host that the policy works on here; returns the exit status.
fn manage(
    arguments: &Arguments,
    workload: Workload,
    policy: AnyPolicy,
    worker: &Worker,
    journal: Box<dyn Journal>,
) -> Result<u8> {
    let mut host = LinuxHost::new(Roots::default(), HostOptions::default())?.with_journal(journal);
    if policy.describe().grants {
        // As `quell run` does on the kernel's scheduler: Quell's own takes every thread of the machine.
        let scheduler = Affinity::new(&host.topology(), host.cpus().1, None);
        host = host.with_scheduler(scheduler)?;
    }
    manage_on(host, arguments, workload, policy, worker)
}

/// Starts or takes what is to be managed, and manages it until it ends, or the guardian is gone.
fn manage_on(
    mut host: LinuxHost,
    arguments: &Arguments,
    mut workload: Workload,
    policy: AnyPolicy,
    worker: &Worker,
) -> Result<u8> {
    let fidelity = host.capabilities().fidelity(policy.describe());
    if !fidelity.missing.is_empty() {
        bail!(AgentError::Unfit { policy: policy.describe().name, missing: fidelity.missing });
    }
    for limit in fidelity.limits.iter().filter(|_| arguments.verbose) {
        eprintln!("quell: {limit}");
    }
    let layers = stack::curbed(quell_daemon::layers_of(policy), &host.capabilities());
    let given = layers.iter().filter_map(|layer| layer.policy.priority()).max();
    let priority = layers.iter().any(sets_classes).then_some(given.map_or(OWN_PRIORITY, |given| given + 1));
    let topology = host.topology();
    let pool = host.cpus().1;
    let mut stack = stack::over(layers, View::new(topology), pool)?;

    let controller = match workload.limit.filter(|_| arguments.pid.is_empty()) {
        Some(limit) => {
            // Another process namespace on the same cgroups has the same numbers.
            let name = format!("quell-exec-{}-{:x}", std::process::id(), quell_linux::now().0);
            let found = Controller::find(&Roots::default(), &name);
            Some(found.map_err(|why| anyhow!("--limit {limit} cannot be kept: {why}"))?)
        }
        None => None,
    };
    let mut subject = if arguments.pid.is_empty() {
        match Subject::command(&arguments.command, worker)? {
            Ok(subject) => subject,
            Err(status) => return Ok(status),
        }
    } else {
        Subject::running(&arguments.pid, worker)?
    };
    workload.selectors = subject.selectors();
    let held = match (subject.held(), &controller, workload.limit) {
        (Some(pid), Some(controller), Some(limit)) => {
            let pid = pid.as_raw_nonzero().get();
            let made = host
                .hold_to(controller, limit, pid)
                .map_err(|error| anyhow!("--limit {limit} cannot be kept: {error}"));
            made.and_then(|()| may_be_real_time(&workload, stack.layers(), pid, controller))
        }
        _ => Ok(()),
    };
    let attached = held.and_then(|()| host.attach(workload.clone()).map_err(|error| anyhow!("{error}")));
    let managed = attached.and_then(|id| {
        if let Some(conflict) = host.look_for_conflict()? {
            let whose = workload_of(&conflict).map_or_else(String::new, |name| format!(" as workload '{name}'"));
            bail!(
                "thread {} is managed already{whose}: {}; nothing is set on it here",
                conflict.thread.tid,
                conflict.by
            );
        }
        let mut voice = Voice::new(arguments.verbose);
        let own = controller.as_ref().map(|controller| LimitState::Kept(controller.quota_file()));
        let limit = own.or_else(|| host.limit_state(id).cloned());
        beyond(&workload, pool);
        warn(&workload, stack.layers(), &host.capabilities(), limit.as_ref());
        if !arguments.quiet {
            voice.managed = Some(Managed { name: workload.name.clone(), id, limit: workload.limit.zip(limit) });
        }
        let say = |what: String| {
            if !arguments.quiet {
                eprintln!("quell: {}: {what}", workload.name);
            }
        };
        if !workload.is_lc() {
            subject.begin();
        }
        let work = |in_force: bool| {
            if !in_force {
                say(format!(
                    "the policy's first plan has not settled within {LONGEST_SETTLING}; it begins all the same"
                ));
            }
            subject.wait(worker, &say)
        };
        let on_failure = || worker.stop().store(true, Ordering::Release);
        while_driving(&mut stack, &mut host, &mut voice, priority, &on_failure, work)?
    });
    if managed.is_err() {
        subject.give_up();
    }
    for left in host.restore().left {
        eprintln!("quell: {left}");
    }
    managed
}

/// Refuses a quota under which a policy could not make the threads real-time: with RT group scheduling a cgroup without a
/// budget for that has no such threads. The process that is tried has not executed its program yet.
fn may_be_real_time(workload: &Workload, layers: &[Layer], pid: i32, controller: &Controller) -> Result<()> {
    let Some(layer) = layers.iter().find(|layer| sets_classes(layer)).filter(|_| workload.is_lc()) else {
        return Ok(());
    };
    let mut calls = Kernel::new()?;
    let fifo = ThreadClass::of(SchedClass::Fifo { priority: 1 });
    let before = calls.class(pid)?;
    let tried = calls.set_class(pid, &fifo);
    calls.set_class(pid, &before)?;
    if tried.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        bail!(
            "--limit takes a cgroup of its own ({}), and this kernel gives one without real-time budget (RT group scheduling) no \
             SCHED_FIFO, which policy {} sets: leave --limit out, or take --policy rkube",
            controller.group().path.display(),
            layer.policy.describe().name
        );
    }
    Ok(())
}

/// The workload of which another Quell has a thread, if that one answers.
fn workload_of(conflict: &Conflict) -> Option<String> {
    let client = Client::new(conflict.socket.as_ref().filter(|socket| socket.exists())?).ok()?;
    let thread: wire::Thread = client.get(&format!("/v1/threads/{}", conflict.thread.tid)).ok()?;
    (thread.start == conflict.thread.start).then(|| foreign::text(&thread.workload).to_string())
}

fn sets_classes(layer: &Layer) -> bool {
    layer.policy.describe().knobs.iter().any(|need| need.what == KnobKind::Class)
}

/// Says that more was asked for than there is.
fn beyond(workload: &Workload, pool: CpuSet) {
    let there = CpuCount::whole(pool.len() as u32);
    if workload.cpus > there {
        let cpus = amount(pool.len(), "CPU", "CPUs");
        eprintln!("quell: {}: --cpus {} is more than this machine has, which is {cpus}", workload.name, workload.cpus);
    }
}

/// Says what was asked for and nothing acts on.
fn warn(workload: &Workload, layers: &[Layer], capabilities: &Capabilities, limit: Option<&LimitState>) {
    let policies: Vec<_> = layers.iter().map(|layer| layer.policy.describe()).collect();
    let mut obstacle = |_: &Workload| match limit {
        Some(LimitState::NotKept(why)) => Some(why.clone()),
        _ => None,
    };
    for line in unused(workload, &policies, Some(capabilities), &mut obstacle) {
        eprintln!("quell: {}: {line}", workload.name);
    }
}
