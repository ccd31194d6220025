//! Which host a configuration runs on: the stock one, or the one with Quell's own scheduler.

use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use quell_agent::config::{Config, Poll};
use quell_agent::guardian::Worker;
use quell_agent::run::agent::host_options;
use quell_agent::run::{Agent, Extras, Outcome};
use quell_linux::write::Journal;
use quell_linux::{LinuxHost, Roots};
use quell_model::{Capabilities, Nanos, Support};
use quell_scx::{ScxError, ScxHost, ScxOptions};

/// Sleeps under Quell's own scheduler end at the latest after this time, for a look at what no event tells.
const LOOK: Nanos = Nanos::from_millis(1);

/// Runs an agent on the host that its configuration asks for, until it is told to stop.
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
    let linux = LinuxHost::new(Roots::default(), host_options(&config, &extras))?.with_journal(journal);
    if config.has_own_scheduler() && (extras.shadow || extras.dry_run) {
        bail!(
            "a policy that grants CPUs needs Quell's own scheduler, which cannot be loaded without taking every thread: \
             --dry-run and --shadow are not possible; see what it does with `quell sim`, or on a kernel of its own with \
             `quell lab run`"
        );
    }
    if !config.has_own_scheduler() {
        return Ok(Agent::new(linux, config, extras)?.run(worker, stop)?);
    }
    let all = linux.topology().all();
    let poll = match config.agent.poll {
        Poll::Adaptive => quell_scx::Poll::Adaptive(LOOK),
        Poll::Dedicated => quell_scx::Poll::Dedicated,
    };
    if let Some(cpu) = config.loops_cpu(all) {
        quell_agent::realtime::stay_on(cpu)?;
    }
    let options = ScxOptions { pool: Some(config.pool(all)), poll, granted: config.granted(), ..ScxOptions::default() };
    let host = ScxHost::new(linux, Roots::default(), options)?;
    Ok(Agent::new(host, config, extras)?.run(worker, stop)?)
}

/// What the host can that a policy would run on, given what the stock host can: where policies grant CPUs that is the one
/// with Quell's own scheduler, if this kernel can load it.
#[must_use]
pub fn capabilities(stock: &Capabilities, own_scheduler: bool) -> Capabilities {
    if !own_scheduler {
        return stock.clone();
    }
    match quell_scx::ready() {
        Ok(()) => quell_scx::capabilities(stock.clone()),
        // An agent that runs beside this command has loaded it.
        Err(ScxError::Busy { name }) if name.starts_with(quell_scx::NAME) => quell_scx::capabilities(stock.clone()),
        Err(error) => {
            let error = error.to_string();
            let (why, mend) = error.split_once("; ").unwrap_or((&error, "see `quell doctor`"));
            Capabilities { grants: Support::No { why: why.into(), mend: mend.into() }, ..stock.clone() }
        }
    }
}
