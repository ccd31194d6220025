//! This machine: its schedulers, and agents on its hosts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use quell_agent::api::{Front, Starting};
use quell_agent::config::{Config, Poll, Scheduler};
use quell_agent::guardian::Worker;
use quell_agent::run::extras::{api_config, host_options};
use quell_agent::run::{Agent, Extras, Outcome};
use quell_linux::scheduler::Affinity;
use quell_linux::write::Journal;
use quell_linux::{LinuxHost, Roots};
use quell_model::{Host, Nanos, Policy, Topology};
use quell_scx::{Parts, Scx, ScxError, ScxOptions, Verified};
use tracing::{error, info, warn};

use crate::first_line;
use crate::loading::Load;
use crate::outermost::{Instead, Machine, Refused};
use crate::spare::Spares;

/// Longest sleep under Quell's scheduler, for a check of changes without an event.
const LOOK: Nanos = Nanos::from_millis(1);
/// The kernel attaches a verified scheduler, with every thread there is, within this time.
const ATTACHES: Nanos = Nanos::from_secs(60);

/// The machine of a settled configuration whose policies have Quell's scheduler.
pub struct ThisMachine<'a> {
    config: Config,
    extras: Extras,
    /// None while an agent has it.
    journal: Option<Box<dyn Journal>>,
    worker: Option<&'a Worker>,
    stop: &'a AtomicBool,
    spares: Spares,
}

impl<'a> ThisMachine<'a> {
    /// For agents that are run like this.
    ///
    /// # Errors
    /// If the machine cannot be read, or its API cannot be had.
    pub fn new(
        config: Config,
        extras: Extras,
        journal: Box<dyn Journal>,
        worker: Option<&'a Worker>,
        stop: &'a AtomicBool,
    ) -> Result<ThisMachine<'a>> {
        let topology = Arc::new(topology()?);
        let extras = Extras { front: front(&config, &extras, &topology)?, ..extras };
        Ok(ThisMachine { config, extras, journal: Some(journal), worker, stop, spares: Spares::of(worker) })
    }

    fn take_journal(&mut self) -> Box<dyn Journal> {
        self.journal.take().expect("a previous agent released it")
    }

    fn stage(&self, at_most: Nanos) {
        if let Some(worker) = self.worker {
            worker.stage(at_most);
        }
    }

    /// The kernel attaches it, on a thread of its own. None: the agent was asked to stop meanwhile; the attach ends with the
    /// process, and the scheduler with it.
    fn attach(
        &self,
        verified: Verified,
        topology: Arc<Topology>,
        options: ScxOptions,
    ) -> Result<Option<Result<Scx, ScxError>>> {
        let (of, with) = (Arc::clone(&topology), options.clone());
        let load = Load::begin(move || Scx::attach(verified, &of, &Roots::default(), &with))?;
        while !load.wait(LOOK.into(), self.stop) {
            if self.is_to_stop() {
                return Ok(None);
            }
        }
        Ok(Some(load.finish().and_then(|grant| Scx::with(grant, topology, Roots::default(), options))))
    }

    /// Whatever this machine's kernel refuses, another scheduler will do.
    fn refused(&self, error: ScxError) -> Refused {
        let by_the_kernel = matches!(error, ScxError::Refused { .. } | ScxError::UnknownKernel { .. });
        let tolerable = by_the_kernel || self.config.machine.scheduler == Scheduler::Auto;
        Refused { line: first_line(&error), tolerable, error: error.into() }
    }
}

impl Machine for ThisMachine<'_> {
    type Load = Load;
    type Verified = Verified;

    fn now(&self) -> Nanos {
        quell_linux::now()
    }

    fn is_to_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn forget(&mut self) {
        // A worker that ends with its guardian was not stopped by a person.
        if !self.worker.is_some_and(Worker::guardian_is_gone) {
            self.extras.forget_kept();
        }
    }

    fn load(&mut self) -> Result<Load> {
        let begun = self.spares.load(topology()?.into(), parts(&self.config))?;
        if !begun.is_kept() {
            info!("loading Quell's scheduler: the kernel verifies it, which may take a minute");
        }
        if let Some(front) = self.extras.front.as_ref().filter(|_| !begun.is_kept()) {
            let Starting { what, since } = begun.state().starting();
            front.say(&what, since);
        }
        Ok(begun)
    }

    fn wait(&mut self, load: &Load, at_most: Duration) -> bool {
        load.wait(at_most, self.stop)
    }

    fn finish(&mut self, load: Load) -> Result<Option<Verified>, Refused> {
        let verified = load.finish().map_err(|error| self.refused(error))?;
        Ok(Some(verified).filter(|verified| !verified.is_stale()))
    }

    fn stand_in(&mut self, load: Option<&Load>, instead: Instead, off_since: Option<Nanos>) -> Result<Outcome> {
        let degraded = match instead {
            Instead::Off(off) => Some(off),
            Instead::Loading => None,
        };
        let loading = load.map(Load::state);
        if loading.is_some() {
            info!("CPUs are lent by affinity until Quell's scheduler is enabled");
        }
        // What is recorded up to here stays: there is one stack in a record.
        let extras = Extras { off_since, record: None, degraded, loading, ..self.extras.clone() };
        let journal = self.take_journal();
        let mut agent = on_linuxs_scheduler(self.config.clone().on_the_kernels_scheduler(), extras, journal)?;
        let outcome = agent.run(self.worker, self.stop)?;
        self.journal = Some(agent.into_journal());
        if outcome == Outcome::SchedulerAgain {
            quell_agent::realtime::run_among_others()?;
        }
        Ok(outcome)
    }

    fn run(&mut self, verified: Verified, first: bool) -> Result<Result<Outcome, Refused>> {
        if let Some(front) = &self.extras.front {
            front.say("attaching Quell's verified scheduler", quell_linux::now());
        }
        let watchdog_timeout = self.config.agent.watchdog_timeout;
        self.stage(watchdog_timeout);
        let journal = self.take_journal();
        let mut linux =
            LinuxHost::new(Roots::default(), host_options(&self.config, &self.extras))?.with_journal(journal);
        let all = linux.cpus().0;
        let poll = match self.config.agent.poll {
            Poll::Adaptive => quell_scx::Poll::Adaptive(LOOK),
            Poll::Dedicated => quell_scx::Poll::Dedicated,
        };
        let pool = Some(self.config.pool_to_come(linux.cpus()));
        let (granted, parts) = (self.config.holding(), parts(&self.config));
        let options = ScxOptions { pool, poll, granted, parts, ..ScxOptions::default() };
        self.stage(watchdog_timeout.max(ATTACHES));
        let scheduler = match self.attach(verified, linux.topology(), options)? {
            Some(Ok(scheduler)) => scheduler,
            other => {
                self.journal = Some(linux.take_journal());
                return Ok(match other.and_then(Result::err) {
                    Some(error) => Err(self.refused(error)),
                    None => Ok(Outcome::Stopped),
                });
            }
        };
        self.stage(watchdog_timeout);
        match quell_scx::state().as_str() {
            "enabled" => say_at_work(&self.config),
            // The loop learns why in its first turn.
            state => warn!("Quell's scheduler was attached, and the kernel says that it is {state}"),
        }
        self.spares.begin(parts);
        let record = self.extras.record.clone().filter(|_| first);
        let extras = Extras { record, ..self.extras.clone() };
        let mut agent = Agent::new(linux.with_scheduler(scheduler)?, self.config.clone(), extras)?;
        // The agent's other threads run by now, and do not inherit it: the loop would wait for them.
        let own = self.config.loops_cpu(all);
        if let Some(cpu) = own {
            quell_agent::realtime::stay_on(cpu)?;
        }
        let outcome = agent.run(self.worker, self.stop)?;
        if own.is_some() {
            quell_agent::realtime::stay_nowhere()?;
        }
        self.journal = Some(agent.into_journal());
        Ok(Ok(outcome))
    }
}

/// The agent's first settings follow.
pub fn say_at_work(config: &Config) {
    info!(policies = config.policies.len(), workloads = config.workloads.len(), "at work");
}

fn topology() -> Result<Topology> {
    Ok(quell_linux::sysfs::topology("/sys".as_ref())?)
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
pub fn on_linuxs_scheduler(mut config: Config, extras: Extras, journal: Box<dyn Journal>) -> Result<Agent> {
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
                let line = format!("policy '{name}' cannot work without Quell's scheduler: {}", missing.join("; "));
                if for_good { error!("{line}") } else { info!("{line}") }
            }
            missing.is_empty()
        });
    }
    Ok(Agent::new(linux, config, extras)?)
}
