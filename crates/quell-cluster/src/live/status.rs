//! What a controller reports of its cluster.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quell_model::cluster::{ClusterDomain, ClusterEvent, ClusterView, Contended, HostState, MoveEnd};
use quell_model::{Nanos, Stack, WorkloadId};
use serde::{Deserialize, Serialize};

use super::Driver;
use crate::policy::{AnyClusterPolicy, Judged, Verdict};
use crate::report::{self, WorkloadReport};

/// The cluster as its controller sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// What the cluster is.
    pub about: String,
    /// The policy.
    pub policy: String,
    /// The cluster's time.
    pub now: Nanos,
    /// Was the cluster there before this controller?
    pub found: bool,
    /// Hosts that are ready.
    pub ready: u32,
    /// Hosts that are draining or do not report.
    pub not_ready: u32,
    /// Hosts that are gone.
    pub gone: u32,
    /// Workloads on hosts.
    pub placed: u32,
    /// Workloads that wait for a place.
    pub pending: u32,
    /// Workloads that move.
    pub moving: u32,
    /// Services whose reported latency exceeds their SLO.
    pub violated: u32,
    /// Moves that arrived since this controller began.
    pub arrived: u32,
    /// Moves that did not.
    pub failed: u32,
    /// Moves that the policy judged, and those of them that helped.
    pub judged: (u32, u32),
    /// Moves that the policy judged, by verdict: helped, no effect, worse.
    #[serde(default)]
    pub verdicts: [u32; 3],
    /// What its driver counted.
    #[serde(default)]
    pub counts: Counts,
    /// Hosts by class: quiet, busy, contended.
    #[serde(default)]
    pub classes: [u32; 3],
    /// The time of the last turn, and of the longest.
    #[serde(default)]
    pub turns: (Nanos, Nanos),
    /// What a person should know, a line each.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// What a driver counted since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Evictions that began.
    pub evicted: u32,
    /// Evictions that were recommended.
    pub recommended: u32,
    /// Evictions that were not to be made then.
    pub refused: u32,
    /// Marks that were written.
    pub marked: u32,
    /// Calls that failed.
    pub failed: u32,
    /// Reports that count for nothing, now.
    pub bad_reports: u32,
}

/// Where the loop puts what is asked for. Copies are the same.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Shown>>);

#[derive(Debug, Default)]
struct Shown {
    status: Status,
    view: ClusterView,
    judged: Vec<Judged>,
    kinds: Vec<String>,
    hosts: Vec<Option<String>>,
}

impl Board {
    /// An empty one, of a cluster under a policy that was or was not there before.
    #[must_use]
    pub fn new(about: &str, policy: &str, found: bool) -> Board {
        let status = Status { about: about.to_owned(), policy: policy.to_owned(), found, ..Status::default() };
        Board(Arc::new(Mutex::new(Shown { status, ..Shown::default() })))
    }

    /// A turn is over; it took this time.
    pub fn show<D: Driver>(&self, driver: &D, stack: &Stack<AnyClusterPolicy, ClusterDomain>, took: Duration) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.take(stack.view());
        for layer in stack.stepped() {
            for event in &layer.events {
                shown.handle(event);
            }
        }
        let judged = stack.layers()[0].policy.judged();
        shown.status.judged = (judged.len() as u32, judged.iter().filter(|judged| judged.helped).count() as u32);
        let verdict = |wanted| judged.iter().filter(|judged| judged.verdict() == wanted).count() as u32;
        shown.status.verdicts = [Verdict::Helped, Verdict::NoEffect, Verdict::Worse].map(verdict);
        shown.status.counts = driver.counts();
        let took = Nanos(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        shown.status.turns = (took, took.max(shown.status.turns.1));
        judged.clone_into(&mut shown.judged);
        shown.status.remarks = driver.remarks();
        let ids = (0..shown.view.workloads.len()).map(|at| WorkloadId(at as u32));
        shown.kinds = ids.map(|id| driver.kind(id).to_owned()).collect();
        shown.hosts = shown.view.hosts.ids().map(|id| driver.host_name(id).map(str::to_owned)).collect();
    }

    /// The present status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).status.clone()
    }

    /// The workload of this name: its number, or its kind where that is a name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<WorkloadId> {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there =
            |at: &usize| shown.view.workloads.present.get(*at).copied().unwrap_or(false) && shown.kinds[*at] == name;
        name.parse().ok().map(WorkloadId).or_else(|| (0..shown.kinds.len()).find(there).map(|at| WorkloadId(at as u32)))
    }

    /// What is known of a workload; None: there is none of this number.
    #[must_use]
    pub fn workload(&self, id: WorkloadId) -> Option<WorkloadReport> {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = shown.view.workloads.present.get(id.index()).copied().unwrap_or(false);
        let names = report::Names { workloads: &shown.kinds, hosts: &shown.hosts };
        is_there.then(|| report::of_workload(&shown.view, &shown.judged, id, &names))
    }
}

impl Shown {
    fn take(&mut self, view: &ClusterView) {
        self.view.clone_from(view);
        let status = &mut self.status;
        status.now = view.now;
        let hosts = |is: fn(HostState) -> bool| view.hosts.state.iter().filter(|&&state| is(state)).count() as u32;
        status.ready = hosts(|state| state == HostState::Ready);
        status.gone = hosts(|state| state == HostState::Gone);
        for class in [Contended::Quiet, Contended::Busy, Contended::Contended] {
            status.classes[class as usize] = view.hosts.mark.iter().filter(|mark| **mark == class).count() as u32;
        }
        status.not_ready = view.hosts.len() as u32 - status.ready - status.gone;
        let works = &view.workloads;
        let there = || (0..works.len()).filter(|&at| works.present[at]);
        status.placed = there().filter(|&at| works.host[at].is_some()).count() as u32;
        status.pending = there().filter(|&at| works.pending_since[at].is_some()).count() as u32;
        status.moving = there().filter(|&at| works.moving_to[at].is_some()).count() as u32;
        let is_violated = |&at: &usize| match (works.slo[at], works.latency[at].usable()) {
            (Some(slo), Some(latency)) => latency > slo.bound,
            _ => false,
        };
        status.violated = there().filter(is_violated).count() as u32;
    }

    fn handle(&mut self, event: &ClusterEvent) {
        if let ClusterEvent::MoveEnded(_, end) = event {
            match end {
                MoveEnd::Arrived(_) => self.status.arrived += 1,
                _ => self.status.failed += 1,
            }
        }
    }
}
