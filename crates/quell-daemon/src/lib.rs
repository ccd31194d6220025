//! The agent on its machine: which scheduler it has, what it does without, when it tries again ([`outermost`]); and what the host of
//! a configuration can do.

mod loading;
mod machine;
pub mod outermost;
mod spare;

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use quell_agent::config::{Config, Scheduler};
use quell_agent::guardian::Worker;
use quell_agent::run::{Ends, Extras, Outcome};
use quell_agent::stack::Layer;
use quell_linux::scheduler::affinity;
use quell_linux::write::Journal;
use quell_model::{Capabilities, Description, Support};
use quell_policy::AnyPolicy;
use quell_scx::ScxError;

use self::machine::ThisMachine;

/// How it is found out whether Quell's scheduler can be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The kernel verifies it, which may take a minute.
    Kernel,
    /// By what the kernel says of itself: what is about to load the scheduler will know.
    Files,
}

/// The configuration as this machine takes it: where its policies need Quell's scheduler and it cannot be loaded, on
/// Linux's scheduler. Then also why.
#[must_use]
pub fn settle(config: Config, asked: Asked) -> (Config, Option<String>) {
    match config.machine.scheduler {
        Scheduler::Kernel => (config.on_the_kernels_scheduler(), None),
        Scheduler::Auto if config.has_own_scheduler() => match usable(asked) {
            Ok(()) => (config, None),
            Err(why) => (config.on_the_kernels_scheduler(), Some(why)),
        },
        _ => (config, None),
    }
}

/// The stack of one policy on Linux's scheduler: where it grants CPUs, with `guard` before it, as
/// [`Config::on_the_kernels_scheduler`] has it.
#[must_use]
pub fn layers_of(policy: AnyPolicy) -> Vec<Layer> {
    let guard = AnyPolicy::place_of_guard([&policy]).and_then(|_| AnyPolicy::named("guard"));
    guard.into_iter().chain([policy]).map(|policy| Layer::new(policy, None)).collect()
}

/// Can Quell's scheduler be loaded, or has an agent that runs beside this command loaded it? Else why not, with the fix. The
/// kernel is asked once in a process, and what it starts by fork: it checks the whole program.
fn usable(asked: Asked) -> Result<(), String> {
    static PROBED: OnceLock<Result<(), String>> = OnceLock::new();
    match quell_scx::ready() {
        Err(ScxError::Busy { name }) if name.starts_with(quell_scx::NAME) => Ok(()),
        Err(other) => Err(other.to_string()),
        Ok(()) if asked == Asked::Files => Ok(()),
        Ok(()) => PROBED.get_or_init(|| quell_scx::probe().map_err(|error| first_line(&error))).clone(),
    }
}

/// Why the kernel refuses the scheduler though it could have one now, if it does.
pub fn refusal() -> Option<String> {
    quell_scx::ready().ok().and_then(|()| usable(Asked::Kernel).err())
}

/// Without what libbpf said.
fn first_line(error: &ScxError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Runs an agent on the host that its settled configuration asks for, until it is asked to stop. While Quell's scheduler is
/// loaded, and where the kernel ends or refuses it, the agent works without, and loads it again later.
///
/// # Errors
/// If the host cannot be used, or a policy cannot work on it.
pub fn run_agent(
    config: Config,
    extras: Extras,
    journal: Box<dyn Journal>,
    worker: Option<&Worker>,
    stop: &AtomicBool,
) -> Result<Outcome> {
    if config.has_own_scheduler() && (extras.shadow || extras.dry_run) {
        bail!(
            "a policy that grants CPUs uses Quell's own scheduler here, which schedules every thread once loaded: --dry-run and \
             --shadow need machine.scheduler = \"kernel\"; or try it with `quell-lab run`, \
             or on a kernel of its own with `quell-lab boot run`"
        );
    }
    if !config.has_own_scheduler() {
        // A spare that an earlier worker left is not needed any more.
        if let Some(worker) = worker {
            worker.store().clear();
        }
        let mut agent = machine::on_linuxs_scheduler(config.clone(), extras, journal)?;
        machine::say_at_work(&config);
        return Ok(agent.run(worker, stop)?);
    }
    let ends = Ends::kept_in(extras.ends.clone(), quell_linux::now());
    let mut machine = ThisMachine::new(config, extras, journal, worker, stop)?;
    outermost::run(&mut machine, ends, worker.is_some_and(Worker::is_again))
}

/// Capabilities of the host of a policy, given those of the stock host. `grants`: do policies grant CPUs? `own`: by
/// Quell's scheduler, whether it can be loaded or not, and how that is found out.
#[must_use]
pub fn capabilities(stock: &Capabilities, grants: bool, own: Option<Asked>) -> Capabilities {
    let stock = stock.clone();
    let Some(asked) = own else {
        return if grants { affinity::capabilities(stock) } else { stock };
    };
    match usable(asked) {
        Ok(()) => quell_scx::capabilities(stock),
        Err(error) => {
            let (why, fix) = error.split_once("; ").unwrap_or((&error, "see `quell doctor`"));
            Capabilities { grants: Support::No { why: why.into(), fix: fix.into() }, ..stock }
        }
    }
}

/// Capabilities of this policy's own host: if it grants CPUs and Quell's scheduler cannot be loaded, the one that lends
/// by affinity.
#[must_use]
pub fn capabilities_for(stock: &Capabilities, policy: &Description) -> Capabilities {
    let own = policy.wants_own_scheduler() && usable(Asked::Kernel).is_ok();
    capabilities(stock, policy.grants, own.then_some(Asked::Kernel))
}
