//! The loop of `quell run`, with its workloads and its configuration.

use std::sync::atomic::Ordering;

use quell_linux::write::Journal;
use quell_linux::{LinuxError, LinuxHost};
use quell_model::{Host, Knob, Nanos, Policy, SchedClass, View, Wake};
use quell_thread::clock::now;
use tokio::sync::oneshot;

use super::departed::Departed;
use super::extras::{Extras, Outcome, api_config};
use super::leases::Leases;
use super::log::{log, tell_leases};
use super::membership::Membership;
use super::pods::Followed;
use super::refusals::Refusals;
use super::vigil::Vigil;
use super::warnings::Warnings;
use super::{Degraded, Loading, Shadow, Switch};
use crate::AgentError;
use crate::api::{About, Feed, News, ShownPods};
use crate::config::Config;
use crate::drive::LONGEST_WAIT;
use crate::failures::{Failures, Next};
use crate::guardian::Worker;
use crate::observers::{ObserverConfig, Observers};
use crate::realtime::Sentry;
use crate::stack::{self, Stack, Witness};
use crate::wire;

/// The loop's real-time priority at first; above it as soon as a policy gives a higher one to others.
const PRIORITY: u8 = 50;
/// The highest that the loop takes: the guardian stays above it.
const HIGHEST: u8 = 97;

/// An agent at work.
pub struct Agent {
    /// That of the files, with the leased workloads.
    pub(super) config: Config,
    pub(super) leases: Leases,
    pub(super) extras: Extras,
    pub(super) host: LinuxHost,
    pub(super) stack: Stack,
    pub(super) membership: Membership,
    pub(super) observers: Observers,
    pub(super) switch: Switch,
    /// Answers that are due when the next turn's plans are in force.
    pub(super) switched_on: Vec<(oneshot::Sender<Result<wire::Controlled, wire::Problem>>, wire::Controlled)>,
    pub(super) not_reloaded: Option<wire::NotReloaded>,
    feed: Option<Feed>,
    realtime: RealTime,
    vigil: Vigil,
    trouble: Trouble,
    pub(super) warnings: Warnings,
}

/// The loop's own place among the machine's threads.
#[derive(Default)]
struct RealTime {
    priority: u8,
    sentry: Option<Sentry>,
}

/// What does not work, and is tried again.
#[derive(Default)]
struct Trouble {
    refusals: Refusals,
    failures: Failures,
}

impl Agent {
    /// An agent that begins with this configuration.
    ///
    /// # Errors
    /// If a policy cannot work on this host, two of them overlap, or the API cannot listen.
    pub fn new(mut host: LinuxHost, config: Config, extras: Extras) -> Result<Agent, AgentError> {
        let capabilities = host.capabilities();
        for layer in &config.policies {
            let fidelity = capabilities.fidelity(layer.policy.describe());
            if !fidelity.missing.is_empty() {
                return Err(AgentError::Unfit { policy: layer.policy.describe().name, missing: fidelity.missing });
            }
            let policy = layer.policy.describe().name;
            for limit in fidelity.limits {
                tracing::debug!(policy, "{limit}");
            }
        }
        let topology = host.topology();
        let pool = config.pool_to_come(host.cpus());
        let layers = stack::curbed(config.layers(&vec![None; config.workloads.len()]), &capabilities);
        let mut stack = stack::over(layers, View::new(topology), pool)?;
        let api = api_config(&config, &extras);
        let mode = if extras.shadow {
            "shadow"
        } else if extras.dry_run {
            "dry-run"
        } else {
            "run"
        };
        let limits = crate::api::state::limits(&capabilities, stack.layers());
        let warnings = Warnings::begin(&config, &capabilities, &mut host);
        let about = About {
            mode: mode.into(),
            host: capabilities.host.clone(),
            limits,
            news: News::default(),
            degraded: extras.degraded.as_ref().map(Degraded::line),
            starting: extras.loading.as_ref().map(Loading::starting),
        };
        let attribution = Some(config.attribution).filter(|it| it.enabled && !extras.once).map(|it| it.cost);
        let (front, record) = (extras.front.clone(), extras.record.clone());
        let observed = ObserverConfig { api, front, attribution, pods: ShownPods::default(), record };
        let (mut observers, feed) = Observers::start(&observed, about, &mut stack)?;
        if let Some(directory) = &extras.runtime {
            observers.cooperate(directory, &host);
        }
        let pods = Followed::start(&config, &extras, &mut host, observed.pods)?;
        let switch = Switch::kept_in(extras.switch.clone(), now());
        let departed = extras.departed.clone();
        let refused = |why: &String| wire::NotReloaded { since_ns: now().0, why: why.clone() };
        let mut agent = Agent {
            not_reloaded: extras.refused.as_ref().map(refused),
            switch,
            switched_on: Vec::new(),
            leases: Leases::beside(config.clone(), pods),
            config,
            extras,
            host,
            stack,
            membership: Membership::after(Departed::kept_in(departed)),
            observers,
            feed,
            realtime: RealTime::default(),
            vigil: Vigil::default(),
            trouble: Trouble::default(),
            warnings,
        };
        agent.follow_switch("an earlier request", None)?;
        Ok(agent)
    }

    /// Turns until asked to stop, and restores everything.
    ///
    /// # Errors
    /// If the machine could not be observed again and again; the guardian then restores the settings.
    pub fn run(
        &mut self,
        worker: Option<&Worker>,
        stop: &std::sync::atomic::AtomicBool,
    ) -> Result<Outcome, AgentError> {
        self.raise_priority(PRIORITY);
        // From here on the guardian watches: the first turn may hang as well as any other.
        if let Some(worker) = worker {
            worker.beat(self.config.agent.watchdog_timeout);
        }
        self.membership.configure(&self.config, &mut self.host, now());
        let mut outcome = Outcome::Stopped;
        while !stop.load(Ordering::Acquire) {
            if worker.is_some_and(|worker| worker.reload().swap(false, Ordering::AcqRel)) {
                self.cut_proving(worker, now())?;
                if self.reload() {
                    outcome = Outcome::StartAgain;
                    break;
                }
            }
            let is_loaded = self.extras.loading.as_ref().is_some_and(Loading::is_done);
            let is_due = is_loaded || self.extras.degraded.as_ref().is_some_and(|degraded| degraded.is_over(now()));
            // A lease is with this agent: the next one would set everything again beside its caller.
            if is_due && !self.switch.has_leases() {
                outcome = Outcome::SchedulerAgain;
                break;
            }
            let wake = match self.turn(worker, now()) {
                Err(AgentError::SchedulerEnded { why, by_hand, at }) => {
                    // Whatever runs on Linux's scheduler now, what follows is urgent.
                    self.become_urgent(PRIORITY);
                    outcome = Outcome::SchedulerEnded { why, by_hand, at };
                    break;
                }
                Err(error) => {
                    self.wait_and_see(error, worker)?;
                    continue;
                }
                Ok(wake) => wake,
            };
            if self.trouble.failures.none(now()) {
                self.inform();
            }
            if let Some(at) = self.extras.off_since.take() {
                let ms = now().since(at).0 / 1_000_000;
                tracing::info!("the first settings without Quell's scheduler were in force {ms} ms after its end");
            }
            if self.extras.once {
                break;
            }
            let began = self.stack.view().now;
            let latest = Wake::At(began + LONGEST_WAIT);
            let wake = match wake.sooner(latest) {
                Wake::At(at) => Wake::At(at.max(began + self.config.agent.floor())),
                Wake::OnEvent => latest,
            };
            match self.host.wait(wake).map_err(host_failed) {
                // Seen by the next turn.
                Ok(()) | Err(AgentError::SchedulerEnded { .. }) => {}
                Err(error) => self.wait_and_see(error, worker)?,
            }
        }
        self.put_back();
        // A worker that ends with its guardian was not stopped by a person: what starts next is off as well.
        if outcome == Outcome::Stopped && !worker.is_some_and(Worker::guardian_is_gone) {
            self.switch.forget();
            self.membership.forget_departed();
        }
        Ok(outcome)
    }

    /// A look failed: what stands stays, and after a pause it is tried again.
    ///
    /// # Errors
    /// This failure, after a row of them.
    fn wait_and_see(&mut self, error: AgentError, worker: Option<&Worker>) -> Result<(), AgentError> {
        let why = error.to_string();
        let Next::Again(pause) = self.trouble.failures.another(&why, now()) else { return Err(error) };
        if self.trouble.failures.is_news() {
            tracing::warn!("the machine could not be read, retrying: {why}");
            self.inform();
        }
        if let Some(worker) = worker {
            worker.beat(self.config.agent.watchdog_timeout);
        }
        std::thread::sleep(pause.into());
        Ok(())
    }

    pub(super) fn turn(&mut self, worker: Option<&Worker>, time: Nanos) -> Result<Wake, AgentError> {
        let step = || {
            if let Some(worker) = worker {
                worker.step();
            }
        };
        let came_or_went = self.membership.look(&mut self.host, time, &step);
        let writes = !self.only_looks() && !self.host.is_suspended();
        let overwritten = writes && self.vigil.look(&mut self.membership, &mut self.host, time).0;
        if came_or_went.0 || overwritten {
            self.assign();
        }
        self.look_for_warnings(came_or_went.0 || overwritten, time);
        if let Some(feed) = &self.feed {
            for posted in feed.drain() {
                // The workload may have been detached since it was posted.
                let (at, window) = (posted.sample.at, posted.sample.window);
                let _ = self.host.feed_rate(posted.workload, quell_model::Sample::over(posted.rate, at, window));
                let _ = self.host.feed_latency(posted.workload, posted.sample);
            }
        }
        // What follows is the first look at all threads, or the first plan.
        step();
        let wake = if self.extras.shadow {
            self.stack.turn(&mut Shadow::of(&mut self.host))
        } else {
            self.stack.turn(&mut self.host)
        };
        let wake = wake.map_err(host_failed)?;
        while let Some(conflict) = self.host.conflict() {
            if self.membership.refuse(conflict, &mut self.host, time).0 {
                self.assign();
            }
        }
        step();
        self.membership.count(&mut self.host, time);
        self.follow_pods();
        self.answer_calls(worker, time)?;
        self.vigil.remark(&mut self.membership, &self.host, self.config.sets_classes(), time);
        if let Some(roster) = self.membership.news(&self.config) {
            self.observers.publish(roster);
        }
        self.observers.turned(self.stack.view(), self.stack.layers());
        self.observers.attribute(self.stack.view(), &mut self.host);
        self.observers.answer_programs(&mut self.host);
        log(&self.stack, self.extras.shadow, &self.host);
        self.trouble.refusals.look(self.stack.layers(), time);
        self.stay_above();
        if self.realtime.sentry.as_ref().is_some_and(Sentry::beat) {
            tracing::warn!("an iteration took longer than 300 ms: the loop lost real-time priority for a while");
        }
        if let Some(worker) = worker {
            worker.beat(self.config.agent.watchdog_timeout);
            tell_leases(worker, self.stack.layers(), self.config.machine.solo_runs.longest);
        }
        Ok(if self.membership.is_behind() { Wake::At(Nanos::ZERO) } else { wake })
    }

    /// Reports keys without effect, in the log and by the API.
    pub(super) fn look_for_warnings(&mut self, changed: bool, time: Nanos) {
        if self.warnings.look(changed, &self.config, &self.membership, &mut self.host, time) {
            self.inform();
        }
    }

    /// Reports to the API what changed of the agent.
    pub(super) fn inform(&self) {
        let refused = self.not_reloaded.iter().map(|refused| {
            let why = refused.why.replace('\n', "; ");
            format!(
                "the configuration on disk is refused, the previous one remains in force: {why}; fix it (`quell check`), \
                 then reload (SIGHUP, systemctl reload quell)"
            )
        });
        self.observers.inform(&News {
            warnings: refused
                .chain(self.warnings.lines().iter().cloned())
                .chain(self.trouble.failures.warning())
                .collect(),
            notices: self.warnings.notices().to_vec(),
            unplaced_cgroups: self.warnings.unplaced(),
            off: self.switch.reported(),
            not_reloaded: self.not_reloaded.clone(),
            stale: self.trouble.failures.stale(),
        });
    }

    /// Informs every layer which of its workloads are there.
    pub(super) fn assign(&mut self) {
        let fresh = self.config.layers(&self.membership.ids(&self.config));
        for (at, layer) in fresh.into_iter().enumerate() {
            self.stack.assign(at, layer.workloads);
        }
    }

    /// A loop that limits real-time threads runs before them.
    fn stay_above(&mut self) {
        let given = self.stack.layers().iter().filter(|layer| layer.stepped()).flat_map(|layer| &layer.plan.knobs);
        let highest = given.filter_map(|setting| match setting.knob {
            Knob::Class(SchedClass::Fifo { priority } | SchedClass::RoundRobin { priority }) => Some(priority),
            _ => None,
        });
        if let Some(highest) = highest.max()
            && highest >= self.realtime.priority
        {
            self.raise_priority(highest.saturating_add(1));
        }
    }

    /// The loop is real-time before a policy that came later makes others real-time.
    pub(super) fn raise_if_needed(&mut self) {
        if self.realtime.priority == 0 && self.realtime.sentry.is_none() {
            self.raise_priority(PRIORITY);
        }
    }

    /// Does it set nothing?
    pub(super) fn only_looks(&self) -> bool {
        self.extras.shadow || self.extras.dry_run
    }

    fn raise_priority(&mut self, priority: u8) {
        if !self.only_looks() && self.config.sets_classes() {
            self.become_urgent(priority);
        }
    }

    fn become_urgent(&mut self, priority: u8) {
        if !self.config.agent.realtime {
            return;
        }
        if priority > HIGHEST {
            tracing::warn!("a policy gives threads priority {}: the loop cannot preempt them", priority - 1);
        }
        // One at a time: each sentry resets the loop to the priority that it had at the sentry's start.
        self.realtime.sentry = None;
        let sentry = Sentry::begin(priority.min(HIGHEST));
        match sentry.as_ref().map(Sentry::is_real_time) {
            Ok(true) => self.realtime.priority = priority.min(HIGHEST),
            Ok(false) if self.realtime.priority == 0 => {
                tracing::warn!(
                    "the loop has no real-time priority (CAP_SYS_NICE): a policy's real-time threads delay it"
                );
                self.realtime.priority = HIGHEST;
            }
            Ok(false) => {}
            Err(error) => tracing::warn!("{error}"),
        }
        self.realtime.sentry = sentry.ok();
    }

    /// The journal, for another agent after this one.
    #[must_use]
    pub fn into_journal(mut self) -> Box<dyn Journal> {
        self.host.take_journal()
    }

    pub(super) fn put_back(&mut self) {
        self.trouble.refusals.end(self.stack.layers(), now());
        if self.only_looks() {
            return;
        }
        let report = self.host.restore();
        tracing::info!("put back {}", quell_model::amount(report.restored.len(), "value", "values"));
        for left in &report.left {
            tracing::warn!("{left}");
        }
    }
}

pub(super) fn host_failed(error: LinuxError) -> AgentError {
    match error {
        LinuxError::SchedulerEnded { why, by_hand, at } => AgentError::SchedulerEnded { why, by_hand, at },
        other => AgentError::Host(other.to_string()),
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
