//! The host of a configuration: the stock one, that with lending by affinity, or that with Quell's scheduler.

use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use quell_agent::config::{Config, Poll, Scheduler};
use quell_agent::guardian::Worker;
use quell_agent::run::agent::host_options;
use quell_agent::run::{Agent, Extras, Outcome};
use quell_agent::stack::Layer;
use quell_linux::scheduler::{Affinity, affinity};
use quell_linux::write::Journal;
use quell_linux::{LinuxHost, Roots};
use quell_model::{Capabilities, CpuSet, Description, Nanos, Support};
use quell_policy::AnyPolicy;
use quell_scx::{Scx, ScxError, ScxOptions};

/// Longest sleep under Quell's scheduler, for a check of changes without an event.
const LOOK: Nanos = Nanos::from_millis(1);

/// The configuration as this machine takes it: where its policies need Quell's scheduler and it cannot be loaded, on
/// Linux's scheduler. Then also why.
#[must_use]
pub fn settle(config: Config) -> (Config, Option<String>) {
    let wants = config.has_own_scheduler();
    match (config.machine.scheduler, usable()) {
        (Scheduler::Kernel, _) => (config.on_the_kernels_scheduler(), None),
        (Scheduler::Auto, Err(error)) if wants => (config.on_the_kernels_scheduler(), Some(error.to_string())),
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

/// Can Quell's scheduler be loaded, or has an agent that runs beside this command loaded it?
fn usable() -> Result<(), ScxError> {
    match quell_scx::ready() {
        Err(ScxError::Busy { name }) if name.starts_with(quell_scx::NAME) => Ok(()),
        other => other,
    }
}

/// Runs an agent on the host that its settled configuration asks for, until it is asked to stop.
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
    let mut linux = LinuxHost::new(Roots::default(), host_options(&config, &extras))?.with_journal(journal);
    if config.has_own_scheduler() && (extras.shadow || extras.dry_run) {
        bail!(
            "a policy that grants CPUs has Quell's own scheduler here, which cannot be loaded without taking every thread: \
             --dry-run and --shadow are possible with machine.scheduler = \"kernel\"; or see what it does with `quell sim`, \
             or on a kernel of its own with `quell lab run`"
        );
    }
    let all = linux.topology().all();
    if !config.has_own_scheduler() {
        if config.grants() {
            let scheduler = Affinity::new(&linux.topology(), config.pool(all), config.granted());
            linux = linux.with_scheduler(scheduler)?;
        }
        return Ok(Agent::new(linux, config, extras)?.run(worker, stop)?);
    }
    let poll = match config.agent.poll {
        Poll::Adaptive => quell_scx::Poll::Adaptive(LOOK),
        Poll::Dedicated => quell_scx::Poll::Dedicated,
    };
    let loops_cpu = config.loops_cpu(all);
    // Without a choice of CPUs, those that come later are in the pool too.
    let possible = quell_linux::sysfs::possible("/sys".as_ref())?;
    let later = if config.machine.cpus.is_none() { possible.difference(&all) } else { CpuSet::EMPTY };
    let pool = Some(config.pool(all).union(&later));
    let options = ScxOptions {
        pool,
        poll,
        granted: config.granted(),
        servers: config.asks_for_servers(),
        ..ScxOptions::default()
    };
    let scheduler = Scx::load(linux.topology(), Roots::default(), options)?;
    let host = linux.with_scheduler(scheduler)?;
    let mut agent = Agent::new(host, config, extras)?;
    // The agent's other threads run by now, and do not inherit it: the loop would wait for them.
    if let Some(cpu) = loops_cpu {
        quell_agent::realtime::stay_on(cpu)?;
    }
    Ok(agent.run(worker, stop)?)
}

/// Capabilities of the host of a policy, given those of the stock host. `grants`: do policies grant CPUs? `own`: by
/// Quell's scheduler, whether it can be loaded or not?
#[must_use]
pub fn capabilities(stock: &Capabilities, grants: bool, own: bool) -> Capabilities {
    let stock = stock.clone();
    if !own {
        return if grants { affinity::capabilities(stock) } else { stock };
    }
    match usable() {
        Ok(()) => quell_scx::capabilities(stock),
        Err(error) => {
            let error = error.to_string();
            let (why, mend) = error.split_once("; ").unwrap_or((&error, "see `quell doctor`"));
            Capabilities { grants: Support::No { why: why.into(), mend: mend.into() }, ..stock }
        }
    }
}

/// Capabilities of this policy's own host: if it grants CPUs and Quell's scheduler cannot be loaded, the one that lends
/// by affinity.
#[must_use]
pub fn capabilities_for(stock: &Capabilities, policy: &Description) -> Capabilities {
    capabilities(stock, policy.grants, policy.wants_own_scheduler() && usable().is_ok())
}
