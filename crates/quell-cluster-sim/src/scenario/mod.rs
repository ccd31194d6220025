//! A simulated cluster as data.

mod check;

use clap::ValueEnum;
use quell_model::cluster::{Budget, Movable};
use quell_model::{Class, Nanos, Slo};
use quell_sim::machine::{Machine, Preset};
use serde::{Deserialize, Serialize};

use crate::ClusterError;

/// The scenarios that are shipped: name and text.
pub const SHIPPED: &[(&str, &str)] = &[
    ("four-hosts", include_str!("../../scenarios/four-hosts.toml")),
    ("sixteen-hosts", include_str!("../../scenarios/sixteen-hosts.toml")),
    ("testbed", include_str!("../../scenarios/testbed.toml")),
    ("quiet-host", include_str!("../../scenarios/quiet-host.toml")),
    ("hundred-hosts", include_str!("../../scenarios/hundred-hosts.toml")),
    ("five-thousand", include_str!("../../scenarios/five-thousand.toml")),
];

/// A scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its purpose, in a sentence.
    pub about: String,
    /// Simulated time.
    pub lasts: Nanos,
    /// Seed of arrivals, failures and first places.
    #[serde(default)]
    pub seed: u64,
    /// How a host is simulated.
    #[serde(default)]
    pub grain: Grain,
    /// The division of a host's cores among its workloads.
    #[serde(default)]
    pub local: Local,
    /// Failures.
    #[serde(default)]
    pub fails: Failures,
    /// The move budget.
    #[serde(default)]
    pub budget: Budget,
    /// The hosts, in the order of their numbers.
    pub host: Vec<HostSpec>,
    /// Kinds of workloads.
    pub kind: Vec<Kind>,
    /// The workloads, by kind.
    pub workloads: Vec<Group>,
}

/// How a host is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Grain {
    /// In balance over its phases, its services as queues: for thousands of hosts.
    #[default]
    Coarse,
    /// As a whole machine with its kernel, thread by thread, under a policy of its own: for some tens.
    Exact,
}

/// The division of a host's cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Local {
    /// All share all cores, as fairly as they can use them.
    #[default]
    Even,
    /// As SDC's local scheduler divides them (Algorithm 5.2): a core for each vCPU of a service, half as many cores as there
    /// are memory-intensive vCPUs for these, the rest for others.
    Sdc,
}

/// Failures, as parts of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Failures {
    /// Moves that fail before their end.
    pub moves: f64,
    /// Hosts that die within the scenario, at random times; their workloads wait for a place again.
    pub hosts: f64,
    /// Hosts whose reports stop at a random time.
    pub reports: f64,
}

/// Hosts that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostSpec {
    /// Number of them.
    pub count: u32,
    /// The machine, by the name of a preset of the simulator: cache, memory, frequency. One socket of it.
    pub machine: String,
    /// Cores.
    pub cores: u32,
    /// Memory.
    pub memory_gib: f64,
    /// Link.
    pub link_gbit: f64,
    /// CPUs that workloads may claim for each core.
    #[serde(default = "one")]
    pub overcommit: f64,
    /// The power of a queue's filling by which memory-buffer-full events grow; the simulator's where it is left out.
    pub full_power: Option<f64>,
}

impl HostSpec {
    /// Its machine in the simulator, whole; None: there is no preset of this name.
    #[must_use]
    pub fn simulated(&self) -> Option<Machine> {
        let mut machine = Preset::named(&self.machine)?.machine();
        if let Some(power) = self.full_power {
            machine.contention.full_power = power;
        }
        Some(machine)
    }
}

fn one() -> f64 {
    1.0
}

/// A kind of workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Latency-critical or best-effort.
    pub class: Class,
    /// CPUs requested, each a thread.
    pub vcpus: u32,
    /// Memory requested, all of which a move copies.
    pub memory_gib: f64,
    /// Memory that it writes a second.
    #[serde(default)]
    pub dirty_mib: f64,
    /// Ways in which it may move.
    #[serde(default)]
    pub movable: Movable,
    /// What it does, in turn and for ever.
    pub phases: Vec<Phase>,
    /// Requests a second; with it, the kind is a service.
    #[serde(default)]
    pub rate: f64,
    /// CPU time of a request alone; the profile's own where it is left out.
    pub service: Option<Nanos>,
    /// The owner's goal.
    pub slo: Option<Slo>,
}

/// One of a kind's phases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// A profile of the simulator's library.
    pub profile: String,
    /// Its length; zero: for ever.
    #[serde(default)]
    pub lasts: Nanos,
    /// Requests a second in this phase, as a multiple of the kind's.
    #[serde(default = "one")]
    pub load: f64,
}

/// Workloads of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The kind.
    pub kind: String,
    /// Number at the beginning.
    #[serde(default)]
    pub count: u32,
    /// Their hosts at the beginning; left out: `spread`, or the policy places them.
    #[serde(default)]
    pub hosts: Vec<u32>,
    /// At the beginning they are on random hosts on which they fit, the same ones under every policy.
    #[serde(default)]
    pub spread: bool,
    /// One more comes so often on average (exponential).
    pub every: Option<Nanos>,
    /// Each ends after this time on average (exponential); left out: never.
    pub stays: Option<Nanos>,
}

impl Scenario {
    /// Reads and checks a scenario.
    ///
    /// # Errors
    /// The first fault, with the fix.
    pub fn parse(text: &str) -> Result<Scenario, ClusterError> {
        let scenario: Scenario = toml::from_str(text).map_err(|error| ClusterError::Format(error.to_string()))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The shipped scenario of this name.
    ///
    /// # Errors
    /// If there is none; the names are named.
    pub fn shipped(name: &str) -> Result<Scenario, ClusterError> {
        let Some((_, text)) = SHIPPED.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            return Err(ClusterError::Scenario {
                what: format!("scenario '{name}'"),
                why: "is not shipped".into(),
                fix: format!("give a file, or one of {}", known.join(", ")),
            });
        };
        Scenario::parse(text)
    }
}
