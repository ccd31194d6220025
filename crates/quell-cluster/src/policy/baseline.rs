//! Placement by published rules that know no contention, and no moves.

use quell_model::cluster::{
    ClusterDescription, ClusterDomain, ClusterEvent, ClusterPlan, ClusterView, Contended, HostId, PlaceCommand,
};
use quell_model::{Nanos, Policy, Stream, Wake, WorkloadId};
use serde::{Deserialize, Serialize};

use super::kit::{self, Round};

/// The choice of a host for a waiting workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The first on which it fits.
    FirstFit,
    /// Any on which it fits.
    Random,
    /// The one with most memory left: OpenStack Nova's filter scheduler with its RAM weigher; among equals at random
    /// (snu2020 §5.5.2: "the scheduler randomly selected a host among all hosts").
    MostMemory,
    /// The one with the least of its CPUs and memory requested, both counted alike, in whole hundredths: kube-scheduler's
    /// NodeResourcesFit with LeastAllocated, its default; among equals at random.
    LeastAllocated,
}

pub(super) const NONE: ClusterDescription =
    describe("none", "the first host on which a workload fits; no moves", "ours");
pub(super) const RANDOM: ClusterDescription = describe("random", "any host on which a workload fits; no moves", "ours");
pub(super) const NOVA_FILTER: ClusterDescription = describe(
    "nova-filter",
    "the host with most memory left; no moves",
    "OpenStack Nova, filter scheduler with RAMWeigher (snu2020 §5.5.2)",
);
pub(super) const LEAST_ALLOCATED: ClusterDescription = describe(
    "least-allocated",
    "the host with the least requested; no moves",
    "kube-scheduler, NodeResourcesFit with LeastAllocated",
);

const fn describe(name: &'static str, summary: &'static str, source: &'static str) -> ClusterDescription {
    ClusterDescription { name, summary, source, interval: Nanos::ZERO }
}

/// A waiting workload that found no room is tried again after this time.
const AGAIN: Nanos = Nanos::from_secs(30);

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    rule: Rule,
    seed: u64,
    /// Choices among equals so far: each has a stream of its own, so that a serialised state goes on alike.
    drawn: u64,
    #[serde(skip)]
    round: Round,
    #[serde(skip)]
    pending: Vec<WorkloadId>,
    #[serde(skip)]
    equals: Vec<HostId>,
}

impl Baseline {
    /// The rule, with a seed for choices among equals.
    #[must_use]
    pub fn new(rule: Rule, seed: u64) -> Baseline {
        Baseline { rule, seed, drawn: 0, round: Round::default(), pending: Vec::new(), equals: Vec::new() }
    }

    /// A host's rank for a workload: the highest is chosen.
    fn rank(&self, view: &ClusterView, host: HostId) -> u64 {
        let (hosts, at) = (&view.hosts, host.index());
        match self.rule {
            Rule::FirstFit => u64::MAX - u64::from(host.0),
            Rule::Random => 0,
            Rule::MostMemory => self.round.left(view, host).1,
            Rule::LeastAllocated => {
                let (cpus, memory) = self.round.left(view, host);
                let part = |left: u64, of: u64| (left * 100).checked_div(of).unwrap_or(0);
                let allocated = (part(cpus, u64::from(hosts.cpus[at].0)) + part(memory, hosts.memory[at])) / 2;
                // TaintToleration: 0 to 100 by the number of taints with PreferNoSchedule, and of weight 3.
                allocated + if hosts.mark[at] == Contended::Contended { 0 } else { 300 }
            }
        }
    }

    fn choose(&mut self, view: &ClusterView, workload: WorkloadId) -> Option<HostId> {
        let best = self.round.choices(view, workload).map(|host| self.rank(view, host)).max()?;
        let mut equals = std::mem::take(&mut self.equals);
        equals.clear();
        equals.extend(self.round.choices(view, workload).filter(|&host| self.rank(view, host) == best));
        let mut at = 0;
        if equals.len() > 1 {
            self.drawn += 1;
            at = Stream::new(self.seed, self.drawn).below(equals.len() as u32);
        }
        self.equals = equals;
        self.equals.get(at as usize).copied()
    }
}

impl Policy<ClusterDomain> for Baseline {
    fn describe(&self) -> &'static ClusterDescription {
        match self.rule {
            Rule::FirstFit => &NONE,
            Rule::Random => &RANDOM,
            Rule::MostMemory => &NOVA_FILTER,
            Rule::LeastAllocated => &LEAST_ALLOCATED,
        }
    }

    fn step(&mut self, view: &ClusterView, _: &[ClusterEvent], plan: &mut ClusterPlan) -> Wake {
        let mut pending = std::mem::take(&mut self.pending);
        kit::pending(view, &mut pending);
        if !pending.is_empty() {
            self.round.begin(view);
        }
        for &workload in &pending {
            if let Some(host) = self.choose(view, workload) {
                self.round.arrives(view, host, workload);
                plan.places.push(PlaceCommand { workload, host });
            }
        }
        let is_left = pending.len() > plan.places.len();
        self.pending = pending;
        if is_left { Wake::At(view.now + AGAIN) } else { Wake::OnEvent }
    }
}
