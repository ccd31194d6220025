//! The host of a configuration: the stock one, that with lending by affinity, or that with Quell's scheduler.

mod loading;
mod spare;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Result, bail};
use quell_agent::api::{Front, Starting};
use quell_agent::config::{Config, Poll, Scheduler};
use quell_agent::guardian::Worker;
use quell_agent::run::extras::{api_config, host_options};
use quell_agent::run::{Agent, Ends, Extras, Outcome};
use quell_agent::stack::Layer;
use quell_linux::scheduler::{Affinity, affinity};
use quell_linux::write::Journal;
use quell_linux::{LinuxHost, Roots};
use quell_model::{Capabilities, Description, Host, Nanos, Policy, Support, Topology};
use quell_policy::AnyPolicy;
use quell_scx::{Parts, Scx, ScxError, ScxOptions, Verified};
use tracing::{error, info};

use self::spare::Spares;

/// Longest sleep under Quell's scheduler, for a check of changes without an event.
const LOOK: Nanos = Nanos::from_millis(1);

/// At the agent's first start nothing is set while the scheduler is loaded, if that takes no longer: most machines need less, and
/// would have everything set twice.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// The kernel attaches a verified scheduler, with every thread there is, within this time.
const ATTACHES: Nanos = Nanos::from_secs(60);

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

/// Can Quell's scheduler be loaded, or has an agent that runs beside this command loaded it? Else why not, with the mend. The
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
    mut journal: Box<dyn Journal>,
    worker: Option<&Worker>,
    stop: &AtomicBool,
) -> Result<Outcome> {
    if config.has_own_scheduler() && (extras.shadow || extras.dry_run) {
        bail!(
            "a policy that grants CPUs has Quell's own scheduler here, which cannot be loaded without taking every thread: \
             --dry-run and --shadow are possible with machine.scheduler = \"kernel\"; or see what it does with `quell-lab run`, \
             or on a kernel of its own with `quell-lab boot run`"
        );
    }
    if !config.has_own_scheduler() {
        return Ok(on_linuxs_scheduler(config, extras, journal)?.run(worker, stop)?);
    }
    let topology = Arc::new(quell_linux::sysfs::topology("/sys".as_ref())?);
    let extras = Extras { front: front(&config, &extras, &topology)?, ..extras };
    let mut ends = Ends::kept_in(extras.ends.clone(), quell_linux::now());
    // Whatever this machine's kernel refuses, another scheduler will do.
    let tolerant = |error: &ScxError| {
        let refused = matches!(error, ScxError::Refused { .. } | ScxError::UnknownKernel { .. });
        refused || config.machine.scheduler == Scheduler::Auto
    };
    let mut spares = Spares::of(worker)?;
    // A worker that was started again has something to protect at once.
    let mut patience = if worker.is_some_and(Worker::is_again) { Duration::ZERO } else { FIRST_WAIT };
    let mut off_since = None;
    let outcome = loop {
        let mut stand_in = Extras { off_since: off_since.take(), record: None, ..extras.clone() };
        let mut load = None;
        if let Some(off) = ends.off() {
            error!("{}", off.line());
            stand_in.degraded = Some(off.clone());
        } else {
            let begun = spares.load(quell_linux::sysfs::topology("/sys".as_ref())?.into(), parts(&config))?;
            if let Some(front) = extras.front.as_ref().filter(|_| !begun.state().is_done()) {
                let Starting { what, since } = begun.state().starting();
                front.say(&what, since);
            }
            begun.wait(std::mem::take(&mut patience), stop);
            stand_in.loading = Some(begun.state());
            load = Some(begun);
        }
        if !load.as_ref().is_some_and(|load| load.state().is_done()) {
            // What is recorded up to here stays: there is one stack in a record.
            let mut agent = on_linuxs_scheduler(config.clone().on_the_kernels_scheduler(), stand_in, journal)?;
            let outcome = agent.run(worker, stop)?;
            journal = agent.into_journal();
            if outcome != Outcome::SchedulerAgain {
                break outcome;
            }
            quell_agent::realtime::run_among_others()?;
        }
        let Some(load) = load else {
            ends.end_pause();
            continue;
        };
        let loaded = match load.finish() {
            Ok(verified) if verified.is_stale() => {
                info!("a CPU came or went while the scheduler was loaded: it is loaded again");
                continue;
            }
            loaded => loaded,
        };
        let at = quell_linux::now();
        let verified = match loaded {
            Err(error) if ends.any() || tolerant(&error) => {
                error!("{error}");
                ends.another(first_line(&error), false, at);
                continue;
            }
            loaded => loaded?,
        };
        if let Some(front) = &extras.front {
            front.say("attaching Quell's scheduler, which is verified", at);
        }
        let first = !ends.any();
        let (ran, after) = with_scheduler(verified, &config, &extras, journal, worker, (stop, first, &mut spares))?;
        journal = after;
        match ran {
            Err(error) if !first || tolerant(&error) => {
                error!("{error}");
                ends.another(first_line(&error), false, at);
            }
            Err(error) => return Err(error.into()),
            Ok(Outcome::SchedulerEnded { why, by_hand, at }) => {
                off_since = Some(at);
                ends.another(why, by_hand, quell_linux::now());
            }
            Ok(other) => break other,
        }
    };
    ends.forget();
    Ok(outcome)
}

/// The API of a worker that will have several agents; None: no API.
fn front(config: &Config, extras: &Extras, topology: &Arc<Topology>) -> Result<Option<Front>> {
    let workloads = config.workloads.iter().map(|member| member.workload.clone());
    let start = |api| Front::start(&api, Arc::clone(topology), workloads, quell_linux::now());
    Ok(api_config(config, extras).map(start).transpose()?)
}

fn parts(config: &Config) -> Parts {
    Parts { servers: config.asks_for_servers(), together: config.asks_for_cpus_as_one(), ..Parts::default() }
}

/// An agent that hands out CPUs, if any, by affinity. One in place of Quell's scheduler goes on without policies that cannot work
/// here; else they are an error.
fn on_linuxs_scheduler(mut config: Config, extras: Extras, journal: Box<dyn Journal>) -> Result<Agent> {
    let mut linux = LinuxHost::new(Roots::default(), host_options(&config, &extras))?.with_journal(journal);
    if config.grants() {
        let pool = config.pool_to_come(linux.cpus());
        let scheduler = Affinity::new(&linux.topology(), pool, config.granted());
        linux = linux.with_scheduler(scheduler)?;
    }
    if extras.stands_in() {
        let for_good = extras.degraded.is_some();
        // Of this very host: the stock one keeps servers, which it does not beside CPUs that are lent.
        let capabilities = linux.capabilities();
        config.policies.retain(|layer| {
            let missing = capabilities.fidelity(layer.policy.describe()).missing;
            if !missing.is_empty() {
                let name = layer.policy.describe().name;
                let line = format!("without Quell's scheduler '{name}' cannot work: {}", missing.join("; "));
                if for_good { error!("{line}") } else { info!("{line}") }
            }
            missing.is_empty()
        });
    }
    Ok(Agent::new(linux, config, extras)?)
}

/// What came of an agent with Quell's scheduler, if the kernel attached that; and the journal.
type Ran = (Result<Outcome, ScxError>, Box<dyn Journal>);

/// Runs an agent with Quell's scheduler, which is verified. `first`: it has not ended before.
fn with_scheduler(
    verified: Verified,
    config: &Config,
    extras: &Extras,
    journal: Box<dyn Journal>,
    worker: Option<&Worker>,
    (stop, first, spares): (&AtomicBool, bool, &mut Spares),
) -> Result<Ran> {
    let step = |at_most| {
        if let Some(worker) = worker {
            worker.stage(at_most);
        }
    };
    step(config.agent.hung_after);
    let mut linux = LinuxHost::new(Roots::default(), host_options(config, extras))?.with_journal(journal);
    let all = linux.topology().all();
    let poll = match config.agent.poll {
        Poll::Adaptive => quell_scx::Poll::Adaptive(LOOK),
        Poll::Dedicated => quell_scx::Poll::Dedicated,
    };
    let pool = Some(config.pool_to_come(linux.cpus()));
    let options = ScxOptions { pool, poll, granted: config.holding(), parts: parts(config), ..ScxOptions::default() };
    step(config.agent.hung_after.max(ATTACHES));
    let scheduler = match Scx::begin(verified, linux.topology(), Roots::default(), options) {
        Err(error) => return Ok((Err(error), linux.take_journal())),
        Ok(scheduler) => scheduler,
    };
    step(config.agent.hung_after);
    spares.begin(parts(config));
    let record = extras.record.clone().filter(|_| first);
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
    Ok((Ok(outcome), agent.into_journal()))
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
            let (why, mend) = error.split_once("; ").unwrap_or((&error, "see `quell doctor`"));
            Capabilities { grants: Support::No { why: why.into(), mend: mend.into() }, ..stock }
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
