//! The agent's configuration: one TOML file and its drop-in directory, accepted as a whole or refused as a whole.
//!
//! [`read`] reads the files and checks everything that can be checked without a machine; [`check`] compares the result
//! with a machine: its CPUs, its processes, and one dry step of every policy. Both report *all* problems, each with
//! file, line and the fix. `docs/reference/configuration.md` describes the format; [`EXAMPLE`] is an annotated example.

pub mod allowed;
mod check;
mod entries;
mod keys;
mod kubernetes;
mod leased;
mod look;
mod pods;
mod problem;
mod read;
pub mod selector;
mod tables;
mod text;
pub mod unused;
pub mod whole;

use std::collections::BTreeSet;
use std::path::PathBuf;

use quell_model::Policy as _;
pub use quell_model::Scheduler;
use quell_model::{CpuId, CpuSet, KnobKind, LeaseLimits, Nanos, RuleKind, Workload, WorkloadId};
use quell_policy::AnyPolicy;
use quell_policy::guard::{Guard, GuardConfig};
use quell_scrape::Source;
use serde::Deserialize;

use crate::stack;

pub use check::{AllMatch, Matches, OtherCpus, check, check_rest};
pub use kubernetes::Kubernetes;
pub use leased::Leased;
pub use look::{Start, look};
pub use pods::PodWorkload;
pub use problem::{Place, Problem, Problems, Severity};
pub use read::{drop_in_directory, read, read_all, read_one, read_text, read_with};
pub use text::is_pipe;

/// An annotated example: a complete configuration that passes every check on a machine with two CPUs.
pub const EXAMPLE: &str = include_str!("example.toml");

/// Default path of the configuration.
pub const DEFAULT_PATH: &str = "/etc/quell/quell.toml";

/// A configuration whose parts fit together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The path that it was read by; drop-ins beside it can be all that there is. None: it was read from a text.
    pub main: Option<PathBuf>,
    /// The files that it was read from, in order.
    pub files: Vec<PathBuf>,
    /// `[machine]`.
    pub machine: Machine,
    /// `[agent]`.
    pub agent: Agent,
    /// `[api]`.
    pub api: Api,
    /// `[metrics]`.
    pub metrics: Metrics,
    /// `[attribution]`.
    pub attribution: Attribution,
    /// `[kubernetes]`; None: the agent has no part in Kubernetes.
    pub kubernetes: Option<Kubernetes>,
    /// `[[policy]]`: the stack, first to last.
    pub policies: Vec<Layer>,
    /// `[[workload]]`.
    pub workloads: Vec<Member>,
    /// Places of values whose faults only the machine can show.
    pub places: Places,
}

/// Places of single values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// `machine.cpus`.
    pub cpus: Option<Place>,
    /// `api.socket`.
    pub socket: Option<Place>,
    /// `api.group`.
    pub group: Option<Place>,
    /// `metrics.listen`.
    pub listen: Option<Place>,
    /// `metrics.token`.
    pub token: Option<Place>,
    /// `metrics.socket`.
    pub metrics_socket: Option<Place>,
}

/// Quell's permissions on the machine as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The CPUs that Quell manages; None: all, but for isolated ones, as they come online.
    pub cpus: Option<CpuSet>,
    /// The scheduler in charge of the machine's CPUs.
    pub scheduler: Scheduler,
    /// May it make cgroup partitions, which move unmanaged work away?
    pub partition: bool,
    /// May it set the machine's preemption mode?
    pub preemption: bool,
    /// May it set the cache mask of resctrl's root group, which takes unmanaged work off the ways of latency-critical
    /// workloads?
    pub cache: bool,
    /// May it limit the frequency of a GPU that shares the CPUs' memory?
    pub gpu: bool,
    /// May it enable the cpu and cpuset controllers for the cgroups of workloads (`cgroup.subtree_control`)? Without
    /// them it sets values on single threads there.
    pub enable_controllers: bool,
    /// Bounds on the length and share of solo runs.
    pub solo_runs: LeaseLimits,
}

/// Waiting of the loop for its next turn under Quell's scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Poll {
    /// It sleeps until a queue forms or a CPU is yielded; the rules in the kernel carry the reaction.
    #[default]
    Adaptive,
    /// It never sleeps, on a CPU of its own: the highest of those that Quell manages.
    Dedicated,
}

/// Settings of the agent itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The loop turns at most this often, whatever the policies want; None: every 100 µs, with a CPU of its own every
    /// 10 µs.
    pub min_interval: Option<Nanos>,
    /// Its way of waiting.
    pub poll: Poll,
    /// Does the loop run at real-time priority, above its policies' classes?
    pub realtime: bool,
    /// A loop that has not turned for this long is taken for hung: it is ended, and everything is put back.
    pub watchdog_timeout: Nanos,
}

/// The HTTP interface on a Unix socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Api {
    /// The socket; None: `api.sock` in the agent's run directory.
    pub socket: Option<PathBuf>,
    /// The group that may read; None: root alone.
    pub group: Option<String>,
}

/// Prometheus metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The address and port to listen on, of the loopback interface unless there is a token; None: off.
    pub listen: Option<std::net::SocketAddr>,
    /// The file of the token that is to be shown there; None: nothing is.
    pub token: Option<PathBuf>,
    /// The socket file, for the users that may read the API's; None: off.
    pub socket: Option<PathBuf>,
}

/// What workloads wait for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attribution {
    /// Is it measured?
    pub enabled: bool,
    /// It costs at most this much of one CPU.
    pub cost: f64,
}

impl Default for Attribution {
    fn default() -> Attribution {
        Attribution { enabled: true, cost: 0.005 }
    }
}

/// One policy of the stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The policy with its parameters.
    pub policy: AnyPolicy,
    /// The names of the workloads that it owns; None: all.
    pub workloads: Option<Vec<String>>,
    /// Its place.
    pub place: Place,
}

/// One workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The workload.
    pub workload: Workload,
    /// Where its latency is read; None: it is posted, or not known.
    pub latency: Option<Source>,
    /// The caller that leased it; None: it stands in the files.
    pub leased_by: Option<String>,
    /// Its place.
    pub place: Place,
}

impl Default for Agent {
    fn default() -> Agent {
        Agent { min_interval: None, poll: Poll::default(), realtime: true, watchdog_timeout: Nanos::from_secs(5) }
    }
}

impl Agent {
    /// The loop turns at most this often.
    #[must_use]
    pub fn floor(&self) -> Nanos {
        let usual = match self.poll {
            Poll::Adaptive => Nanos::from_micros(100),
            Poll::Dedicated => Nanos::from_micros(10),
        };
        self.min_interval.unwrap_or(usual)
    }
}

impl Config {
    /// Does Quell's scheduler run, where the kernel can load it?
    #[must_use]
    pub fn has_own_scheduler(&self) -> bool {
        match self.machine.scheduler {
            Scheduler::Auto => self.policies.iter().any(|layer| layer.policy.describe().wants_own_scheduler()),
            Scheduler::Kernel => false,
            Scheduler::Quell => true,
        }
    }

    /// Does a policy grant CPUs?
    #[must_use]
    pub fn grants(&self) -> bool {
        self.policies.iter().any(|layer| layer.policy.describe().grants)
    }

    /// Will a policy ask for deferrable servers?
    #[must_use]
    pub fn asks_for_servers(&self) -> bool {
        let keeps = |layer: &Layer| layer.policy.describe().has_rule(RuleKind::Server);
        self.policies.iter().any(keeps) && self.workloads.iter().any(|member| member.workload.demand.is_some())
    }

    /// Will a policy ask that workloads hold CPUs as one?
    #[must_use]
    pub fn asks_for_cpus_as_one(&self) -> bool {
        self.policies.iter().any(|layer| layer.policy.describe().has_rule(RuleKind::Together))
    }

    /// Does a policy set scheduling classes?
    #[must_use]
    pub fn sets_classes(&self) -> bool {
        let sets_them = |layer: &Layer| layer.policy.describe().knobs.iter().any(|need| need.what == KnobKind::Class);
        self.policies.iter().any(sets_them)
    }

    /// The same on Linux's scheduler, with `guard` where [`AnyPolicy::place_of_guard`] has it.
    #[must_use]
    pub fn on_the_kernels_scheduler(mut self) -> Config {
        self.machine.scheduler = Scheduler::Kernel;
        if let Some(at) = AnyPolicy::place_of_guard(self.policies.iter().map(|layer| &layer.policy)) {
            let workloads = self.granted().map(|names| names.into_iter().collect());
            let place = self.policies[at].place.clone();
            let policy = AnyPolicy::Guard(Guard::new(GuardConfig::default()));
            self.policies.insert(at, Layer { policy, workloads, place });
        }
        self
    }

    /// The names of the workloads that policies grant CPUs to; None: all.
    #[must_use]
    pub fn granted(&self) -> Option<BTreeSet<String>> {
        self.owned_by(|layer| layer.policy.describe().grants)
    }

    /// And of those that hold CPUs under Quell's scheduler, granted or as one with others; the latter are latency-critical.
    #[must_use]
    pub fn holding(&self) -> Option<BTreeSet<String>> {
        let as_one = self.owned_by(|layer| layer.policy.describe().has_rule(RuleKind::Together));
        let is_as_one = |name: &String| as_one.as_ref().is_none_or(|names| names.contains(name));
        let critical =
            self.workloads.iter().filter(|member| member.workload.is_lc()).map(|member| &member.workload.name);
        self.granted().map(|granted| critical.filter(|name| is_as_one(name)).cloned().chain(granted).collect())
    }

    /// The names of the workloads whose policies use Quell's scheduler; None: all.
    #[must_use]
    pub fn scheduled(&self) -> Option<BTreeSet<String>> {
        self.owned_by(|layer| layer.policy.describe().can_use_own_scheduler())
    }

    fn owned_by(&self, is_meant: impl Fn(&Layer) -> bool) -> Option<BTreeSet<String>> {
        let layers = self.policies.iter().filter(|layer| is_meant(layer));
        let names: Option<Vec<&Vec<String>>> = layers.map(|layer| layer.workloads.as_ref()).collect();
        names.map(|names| names.into_iter().flatten().cloned().collect())
    }

    /// The CPU that the loop has for itself, on a machine with these CPUs.
    #[must_use]
    pub fn loops_cpu(&self, all: CpuSet) -> Option<CpuId> {
        let own = self.has_own_scheduler() && self.agent.poll == Poll::Dedicated;
        let named = self.machine.cpus.map_or(all, |cpus| cpus.intersection(&all));
        named.iter().last().filter(|_| own)
    }

    /// The CPUs that policies manage, on a machine with these CPUs.
    #[must_use]
    pub fn pool(&self, all: CpuSet) -> CpuSet {
        let mut pool = self.machine.cpus.unwrap_or(all);
        if let Some(cpu) = self.loops_cpu(all) {
            pool.remove(cpu);
        }
        pool
    }

    /// The same while the agent runs: without a choice of CPUs, those that come later are in the pool too.
    #[must_use]
    pub fn pool_to_come(&self, (all, possible): (CpuSet, CpuSet)) -> CpuSet {
        let later = if self.machine.cpus.is_none() { possible.difference(&all) } else { CpuSet::EMPTY };
        self.pool(all).union(&later)
    }

    /// The workload of this name.
    #[must_use]
    pub fn workload(&self, name: &str) -> Option<&Workload> {
        self.workloads.iter().map(|member| &member.workload).find(|workload| workload.name == name)
    }

    /// The services whose latency is read.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.workloads.iter().filter_map(|member| member.latency.as_ref())
    }

    /// The stack's layers, fresh. `ids` says which of the workloads are attached, and as which.
    #[must_use]
    pub fn layers(&self, ids: &[Option<WorkloadId>]) -> Vec<stack::Layer> {
        let id_of = |name: &String| {
            let at = self.workloads.iter().position(|member| member.workload.name == *name)?;
            ids.get(at).copied().flatten()
        };
        let layer = |layer: &Layer| {
            let owned = layer.workloads.as_ref().map(|names| names.iter().filter_map(id_of).collect());
            stack::Layer::new(layer.policy.clone(), owned)
        };
        self.policies.iter().map(layer).collect()
    }

    /// Would a running agent have to begin anew to change from this configuration to another? It need not if only
    /// workloads changed, but for where latencies are read, and the first server: Quell's own scheduler is loaded with servers or without.
    #[must_use]
    pub fn needs_restart(&self, next: &Config) -> bool {
        let stack = |config: &Config| {
            config.policies.iter().map(|layer| (layer.policy.clone(), layer.workloads.clone())).collect::<Vec<_>>()
        };
        self.machine != next.machine
            || self.agent != next.agent
            || self.api != next.api
            || self.metrics != next.metrics
            || self.attribution != next.attribution
            || self.kubernetes != next.kubernetes
            || !self.sources().eq(next.sources())
            || stack(self) != stack(next)
            || self.has_own_scheduler() && !self.asks_for_servers() && next.asks_for_servers()
    }
}

#[cfg(test)]
mod tests;
