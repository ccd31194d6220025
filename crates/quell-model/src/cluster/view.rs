//! The observations of a cluster policy: hosts and workloads as structures of arrays.

use serde::{Deserialize, Serialize};

use super::{Contended, Measure};
use crate::{BytesPerSecond, Class, CpuCount, Nanos, Sample, Slo, WorkloadId};

/// A host's place in the view's columns; reused only after the host went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostId(pub u32);

impl HostId {
    /// The number as an index into per-host columns.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A host's fitness for workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostState {
    /// Workloads may come.
    #[default]
    Ready,
    /// Workloads stay, and none may come.
    Draining,
    /// It does not answer: its numbers are old, its workloads' fate is unknown.
    Unreachable,
    /// It is gone.
    Gone,
}

/// Ways in which a workload may change its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Movable {
    /// It goes on meanwhile.
    #[default]
    Live,
    /// It ends there and begins here.
    Restart,
    /// It stays.
    Never,
}

/// The hosts' columns, by [`HostId`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hosts {
    /// CPUs.
    pub cores: Vec<CpuCount>,
    /// CPUs that workloads may claim together; more than there are where the owner overcommits.
    pub cpus: Vec<CpuCount>,
    /// Bytes of memory that workloads may claim together.
    pub memory: Vec<u64>,
    /// Speed of the link over which workloads move.
    pub link: Vec<BytesPerSecond>,
    /// Fitness.
    pub state: Vec<HostState>,
    /// CPUs claimed, workloads under way to it included.
    pub claimed_cpus: Vec<CpuCount>,
    /// Bytes claimed, workloads under way to it included.
    pub claimed_memory: Vec<u64>,
    /// CPUs in use.
    pub used_cpus: Vec<Sample<f64>>,
    /// Memory intensity: memory-buffer-full events a second of all its workloads (snu2020 §5.3.1).
    pub contention: Vec<Sample<f64>>,
    /// Contention by the other measures, in the order of [`Measure::WITHOUT_COUNTERS`].
    #[serde(default)]
    pub substitutes: Vec<[Sample<f64>; 3]>,
    /// Its mark.
    #[serde(default)]
    pub mark: Vec<Contended>,
    /// Time of its last report.
    pub reported: Vec<Nanos>,
}

/// The workloads' columns, by [`WorkloadId`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workloads {
    /// It exists. The other columns mean nothing where it does not.
    pub present: Vec<bool>,
    /// Latency-critical or best-effort.
    pub class: Vec<Class>,
    /// The owner's goal.
    pub slo: Vec<Option<Slo>>,
    /// CPUs requested.
    pub cpus: Vec<CpuCount>,
    /// Bytes of memory requested.
    pub memory: Vec<u64>,
    /// Bytes of memory that it writes a second.
    pub dirty: Vec<BytesPerSecond>,
    /// Ways in which it may move.
    pub movable: Vec<Movable>,
    /// Its host; None: it waits for a place.
    pub host: Vec<Option<HostId>>,
    /// The host to which it is under way.
    pub moving_to: Vec<Option<HostId>>,
    /// Time since which it waits for a place.
    pub pending_since: Vec<Option<Nanos>>,
    /// Memory-buffer-full events a second.
    pub intensity: Vec<Sample<f64>>,
    /// Its part, 0–1, of the time that its host's workloads waited for others: it ran then.
    #[serde(default)]
    pub share: Vec<Sample<f64>>,
    /// Soft interrupts a second on its behalf.
    pub softirqs: Vec<Sample<f64>>,
    /// CPUs in use.
    pub used_cpus: Vec<Sample<f64>>,
    /// Latency at its SLO's quantile as the service reports it.
    pub latency: Vec<Sample<Nanos>>,
    /// Waiting time predicted from intensity and soft interrupts (snu2020 Eq. 5.1).
    pub predicted: Vec<Sample<Nanos>>,
    /// `SLO_threshold`: the prediction at about 75 % of its peak load (snu2020 §5.4.2); None: not known.
    pub threshold: Vec<Option<Nanos>>,
}

/// The part of the cluster that one layer may decide about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterScope {
    /// Its workloads; None: all.
    pub workloads: Option<Vec<WorkloadId>>,
    /// Its hosts; None: all.
    pub hosts: Option<Vec<HostId>>,
}

/// Everything that a cluster policy sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterView {
    /// Time.
    pub now: Nanos,
    /// Hosts.
    pub hosts: Hosts,
    /// Workloads.
    pub workloads: Workloads,
    /// The layer's part.
    pub scope: ClusterScope,
}

impl Hosts {
    /// Number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.len()
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// Makes room for this number of hosts; new ones are gone until they are described.
    pub fn resize(&mut self, number: usize) {
        self.cores.resize(number, CpuCount::ZERO);
        self.cpus.resize(number, CpuCount::ZERO);
        self.memory.resize(number, 0);
        self.link.resize(number, BytesPerSecond(0.0));
        self.state.resize(number, HostState::Gone);
        self.claimed_cpus.resize(number, CpuCount::ZERO);
        self.claimed_memory.resize(number, 0);
        self.used_cpus.resize(number, Sample::default());
        self.contention.resize(number, Sample::default());
        self.substitutes.resize(number, [Sample::default(); 3]);
        self.mark.resize(number, Contended::Quiet);
        self.reported.resize(number, Nanos::ZERO);
    }

    /// Every host that is not gone.
    pub fn ids(&self) -> impl Iterator<Item = HostId> + '_ {
        let there = |&(_, state): &(usize, &HostState)| *state != HostState::Gone;
        self.state.iter().enumerate().filter(there).map(|(at, _)| HostId(at as u32))
    }
}

impl Workloads {
    /// Number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.present.len()
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// Makes room for this number of workloads; new ones are not present.
    pub fn resize(&mut self, number: usize) {
        self.present.resize(number, false);
        self.class.resize(number, Class::BestEffort);
        self.slo.resize(number, None);
        self.cpus.resize(number, CpuCount::ZERO);
        self.memory.resize(number, 0);
        self.dirty.resize(number, BytesPerSecond(0.0));
        self.movable.resize(number, Movable::Never);
        self.host.resize(number, None);
        self.moving_to.resize(number, None);
        self.pending_since.resize(number, None);
        self.intensity.resize(number, Sample::default());
        self.share.resize(number, Sample::default());
        self.softirqs.resize(number, Sample::default());
        self.used_cpus.resize(number, Sample::default());
        self.latency.resize(number, Sample::default());
        self.predicted.resize(number, Sample::default());
        self.threshold.resize(number, None);
    }

    /// Every present workload.
    pub fn ids(&self) -> impl Iterator<Item = WorkloadId> + '_ {
        self.present.iter().enumerate().filter(|(_, present)| **present).map(|(at, _)| WorkloadId(at as u32))
    }
}

impl ClusterView {
    /// Contention of a host by this measure; None: not known.
    #[must_use]
    pub fn contention(&self, host: HostId, measure: Measure) -> Option<f64> {
        let (hosts, at) = (&self.hosts, host.index());
        match measure {
            Measure::Counters => hosts.contention[at].usable(),
            other => hosts.substitutes[at][other.index() - 1].usable(),
        }
    }

    /// The part of its host's contention that is a workload's; without counters by its part of the time that others waited.
    #[must_use]
    pub fn intensity(&self, workload: WorkloadId, measure: Measure) -> Option<f64> {
        let (workloads, at) = (&self.workloads, workload.index());
        match measure {
            Measure::Counters => workloads.intensity[at].usable(),
            other => Some(workloads.share[at].usable()? * self.contention(workloads.host[at]?, other)?),
        }
    }

    /// The best measure that a host has; None: nothing is known of it.
    #[must_use]
    pub fn measure(&self, host: HostId) -> Option<Measure> {
        Measure::ALL.into_iter().find(|measure| self.contention(host, *measure).is_some())
    }

    /// The best measure that both hosts have.
    #[must_use]
    pub fn common(&self, one: HostId, other: HostId) -> Option<Measure> {
        let has = |host, measure| self.contention(host, measure).is_some();
        Measure::ALL.into_iter().find(|&measure| has(one, measure) && has(other, measure))
    }

    /// Is there room for a workload of this size on a host that takes workloads?
    #[must_use]
    pub fn has_room(&self, host: HostId, cpus: CpuCount, memory: u64) -> bool {
        let (hosts, at) = (&self.hosts, host.index());
        hosts.state[at] == HostState::Ready
            && hosts.claimed_cpus[at].0.saturating_add(cpus.0) <= hosts.cpus[at].0
            && hosts.claimed_memory[at].saturating_add(memory) <= hosts.memory[at]
    }
}
