//! The host of a configuration: the stock one, that with lending by affinity, or that with Quell's scheduler.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use quell_agent::config::{Config, Poll, Scheduler};
use quell_agent::guardian::Worker;
use quell_agent::run::agent::host_options;
use quell_agent::run::{Agent, Ends, Extras, Outcome};
use quell_agent::stack::Layer;
use quell_linux::scheduler::{Affinity, affinity};
use quell_linux::write::Journal;
use quell_linux::{LinuxHost, Roots};
use quell_model::{Capabilities, Description, Host, Nanos, Policy, Support};
use quell_policy::AnyPolicy;
use quell_scx::{Parts, Scx, ScxError, ScxOptions};
use tracing::error;

/// Longest sleep under Quell's scheduler, for a check of changes without an event.
const LOOK: Nanos = Nanos::from_millis(1);

/// The configuration as this machine takes it: where its policies need Quell's scheduler and it cannot be loaded, on
/// Linux's scheduler. Then also why.
#[must_use]
pub fn settle(config: Config) -> (Config, Option<String>) {
    match config.machine.scheduler {
        Scheduler::Kernel => (config.on_the_kernels_scheduler(), None),
        Scheduler::Auto if config.has_own_scheduler() => match usable() {
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

/// Can Quell's scheduler be loaded, or has an agent that runs beside this command loaded it? Else why not, with the mend. The
/// kernel is asked once in a process, and what it starts by fork: it checks the whole program.
fn usable() -> Result<(), String> {
    static PROBED: OnceLock<Result<(), String>> = OnceLock::new();
    match quell_scx::ready() {
        Err(ScxError::Busy { name }) if name.starts_with(quell_scx::NAME) => Ok(()),
        Err(other) => Err(other.to_string()),
        Ok(()) => PROBED.get_or_init(|| quell_scx::probe().map_err(|error| first_line(&error))).clone(),
    }
}

/// Why the kernel refuses the scheduler though it could have one now, if it does.
pub fn refusal() -> Option<String> {
    quell_scx::ready().ok().and_then(|()| usable().err())
}

/// Without what libbpf said.
fn first_line(error: &ScxError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Runs an agent on the host that its settled configuration asks for, until it is asked to stop. Where the kernel ends or
/// refuses Quell's scheduler, it goes on without, and tries again later.
///
/// # Errors
/// If the host cannot be used, or a policy cannot work on it.
pub fn run_agent(
    config: Config,
    extras: Extras,
    mut journal: Box<dyn Journal>,
    worker: Option<&Worker>,
    stop: &AtomicBool,
) -> Result<Outcome> {
    if config.has_own_scheduler() && (extras.shadow || extras.dry_run) {
        bail!(
            "a policy that grants CPUs has Quell's own scheduler here, which cannot be loaded without taking every thread: \
             --dry-run and --shadow are possible with machine.scheduler = \"kernel\"; or see what it does with `quell sim`, \
             or on a kernel of its own with `quell lab run`"
        );
    }
    if !config.has_own_scheduler() {
        return Ok(on_linuxs_scheduler(config, extras, journal)?.run(worker, stop)?);
    }
    let mut ends = Ends::kept_in(extras.ends.clone(), quell_linux::now());
    let outcome = loop {
        let mut off_since = None;
        let degraded = match ends.off() {
            Some(off) => off.clone(),
            None => {
                let (outcome, after) = with_scheduler(&config, &extras, journal, worker, (stop, ends.any()))?;
                journal = after;
                let Outcome::SchedulerEnded { why, by_hand, at } = outcome else { break outcome };
                off_since = Some(at);
                ends.another(why, by_hand, quell_linux::now())
            }
        };
        error!("{}", degraded.line());
        // What is recorded up to here stays: there is one stack in a record.
        let extras = Extras { degraded: Some(degraded), off_since, record: None, ..extras.clone() };
        let mut agent = on_linuxs_scheduler(config.clone().on_the_kernels_scheduler(), extras, journal)?;
        match agent.run(worker, stop)? {
            Outcome::SchedulerAgain => ends.end_pause(),
            other => break other,
        }
        journal = agent.into_journal();
        quell_agent::realtime::run_among_others()?;
    };
    ends.forget();
    Ok(outcome)
}

/// An agent that hands out CPUs, if any, by affinity. One in place of Quell's scheduler goes on without policies that cannot work
/// here; else they are an error.
fn on_linuxs_scheduler(mut config: Config, extras: Extras, journal: Box<dyn Journal>) -> Result<Agent> {
    let mut linux = LinuxHost::new(Roots::default(), host_options(&config, &extras))?.with_journal(journal);
    if extras.degraded.is_some() {
        let capabilities = capabilities(&linux.capabilities(), config.grants(), false);
        config.policies.retain(|layer| {
            let missing = capabilities.fidelity(layer.policy.describe()).missing;
            if !missing.is_empty() {
                error!(
                    "without Quell's scheduler '{}' cannot work: {}",
                    layer.policy.describe().name,
                    missing.join("; ")
                );
            }
            missing.is_empty()
        });
    }
    if config.grants() {
        let pool = config.pool_to_come(linux.cpus());
        let scheduler = Affinity::new(&linux.topology(), pool, config.granted());
        linux = linux.with_scheduler(scheduler)?;
    }
    Ok(Agent::new(linux, config, extras)?)
}

/// Runs an agent with Quell's scheduler. Returns the journal, too.
fn with_scheduler(
    config: &Config,
    extras: &Extras,
    journal: Box<dyn Journal>,
    worker: Option<&Worker>,
    (stop, has_ended_before): (&AtomicBool, bool),
) -> Result<(Outcome, Box<dyn Journal>)> {
    let mut linux = LinuxHost::new(Roots::default(), host_options(config, extras))?.with_journal(journal);
    let all = linux.topology().all();
    let poll = match config.agent.poll {
        Poll::Adaptive => quell_scx::Poll::Adaptive(LOOK),
        Poll::Dedicated => quell_scx::Poll::Dedicated,
    };
    let pool = Some(config.pool_to_come(linux.cpus()));
    let options = ScxOptions {
        pool,
        poll,
        granted: config.holding(),
        parts: Parts {
            servers: config.asks_for_servers(),
            together: config.asks_for_cpus_as_one(),
            ..Parts::default()
        },
        ..ScxOptions::default()
    };
    let scheduler = match Scx::load(linux.topology(), Roots::default(), options) {
        Err(error) if has_ended_before || matches!(error, ScxError::Refused { .. }) => {
            error!("{error}");
            let why = first_line(&error);
            return Ok((Outcome::SchedulerEnded { why, by_hand: false, at: quell_linux::now() }, linux.take_journal()));
        }
        loaded => loaded?,
    };
    let record = extras.record.clone().filter(|_| !has_ended_before);
    let extras = Extras { record, ..extras.clone() };
    let mut agent = Agent::new(linux.with_scheduler(scheduler)?, config.clone(), extras)?;
    // The agent's other threads run by now, and do not inherit it: the loop would wait for them.
    let own = config.loops_cpu(all);
    if let Some(cpu) = own {
        quell_agent::realtime::stay_on(cpu)?;
    }
    let outcome = agent.run(worker, stop)?;
    if own.is_some() {
        quell_agent::realtime::stay_nowhere()?;
    }
    Ok((outcome, agent.into_journal()))
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
