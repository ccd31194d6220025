//! Options of a run beside its configuration, and how it ends.

use std::path::PathBuf;

use quell_linux::HostOptions;
use quell_model::Nanos;
use quell_thread::clock::now;

use super::departed::Departed;
use super::{Degraded, Loading, Switch};
use crate::api::{ApiConfig, Front};
use crate::config::Config;
use crate::guardian::Beside;

/// Further options of a run.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Decide, and write nothing.
    pub shadow: bool,
    /// Make no write; the journal gets each.
    pub dry_run: bool,
    /// End after the first turn.
    pub once: bool,
    /// Record every turn in this file.
    pub record: Option<PathBuf>,
    /// Path of the API's socket, overriding the configuration.
    pub socket: Option<PathBuf>,
    /// Its path if the configuration has none. Neither: no API at all.
    pub usual_socket: Option<PathBuf>,
    /// Quell's scheduler is off, though a policy asks for it.
    pub degraded: Option<Degraded>,
    /// When it ended, by the monotonic clock; `None`: not in this run.
    pub off_since: Option<Nanos>,
    /// The file that keeps the ends of Quell's scheduler; None: they are forgotten with this process.
    pub ends: Option<PathBuf>,
    /// The file that keeps whether the agent is switched off; None: that is forgotten with this process.
    pub switch: Option<PathBuf>,
    /// The file that keeps which workloads all processes left; None: that is forgotten with this agent.
    pub departed: Option<PathBuf>,
    /// The errors of the configuration that stands in the files now, if that was refused.
    pub refused: Option<String>,
    /// Quell's scheduler is being loaded, and the agent stands in until that is done.
    pub loading: Option<Loading>,
    /// The journal of what is written in pods' cgroups; None: nothing is written there.
    pub pods: Option<Beside>,
    /// An API that answers already, in place of a new one.
    pub front: Option<Front>,
    /// The directory in which programs that cooperate get their pages; None: they get none.
    pub runtime: Option<PathBuf>,
}

impl Extras {
    /// Does the agent work on Linux's scheduler though a policy asks for Quell's?
    #[must_use]
    pub fn stands_in(&self) -> bool {
        self.degraded.is_some() || self.loading.is_some()
    }

    /// A person stopped the agent before it began: what earlier ones kept for the next one is forgotten, as at the end of a run.
    pub fn forget_kept(&self) {
        Switch::kept_in(self.switch.clone(), now()).forget();
        Departed::kept_in(self.departed.clone()).forget();
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was asked to stop.
    Stopped,
    /// The new configuration needs a new beginning; everything has been put back.
    StartAgain,
    /// The kernel ended Quell's scheduler; everything has been put back.
    SchedulerEnded {
        /// The kernel's reason.
        why: String,
        /// Did a person or another program ask for it (SysRq-S)?
        by_hand: bool,
        /// When, by the monotonic clock.
        at: Nanos,
    },
    /// Quell's scheduler may be loaded again; everything has been put back.
    SchedulerAgain,
}

/// The stock host's options from a configuration.
#[must_use]
pub fn host_options(config: &Config, extras: &Extras) -> HostOptions {
    HostOptions {
        partitions: config.machine.partition,
        preemption_mode: config.machine.preemption,
        cache: config.machine.cache,
        gpu: config.machine.gpu,
        enable_controllers: config.machine.enable_controllers,
        leases: config.machine.solo_runs,
        dry_run: extras.dry_run || extras.shadow,
        urgent: extras.stands_in(),
        ..HostOptions::default()
    }
}

/// The API that the configuration and the command line ask for; None: none.
#[must_use]
pub fn api_config(config: &Config, extras: &Extras) -> Option<ApiConfig> {
    let configured = extras.usual_socket.as_ref().map(|usual| config.api.socket.as_ref().unwrap_or(usual));
    extras.socket.as_ref().or(configured).map(|socket| ApiConfig {
        socket: socket.clone(),
        group: config.api.group.clone(),
        metrics: config.metrics.listen,
        metrics_token: config.metrics.token.clone(),
        metrics_socket: config.metrics.socket.clone(),
        sources: config.sources().cloned().collect(),
    })
}
