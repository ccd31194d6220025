//! What came out of a run.

use quell_model::cluster::{ClusterDomain, ClusterView};
use quell_model::{Host, Layer, Nanos};
use quell_model::{Stack, Wake};
use serde::Serialize;

use super::work::{Kinds, Work};
use super::{Cluster, seconds};
use crate::ClusterError;
use crate::scenario::Scenario;
use quell_cluster::policy::{AnyClusterPolicy, Judged};

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Count {
    /// Workloads that came.
    pub came: u32,
    /// Workloads that ended.
    pub ended: u32,
    /// Hosts that died.
    pub died: u32,
    /// Moves that began.
    pub moves: u32,
    /// Moves that arrived.
    pub arrived: u32,
    /// Moves that did not.
    pub failed: u32,
    /// Moves that were refused.
    pub refused: u32,
    /// Seconds of services with an SLO.
    pub served: f64,
    /// Those beyond it.
    pub violated: f64,
    /// Work of best-effort workloads, CPU seconds alone.
    pub best_effort: f64,
    /// Seconds in which workloads waited for a place.
    pub pending: f64,
}

impl Count {
    /// Adds a workload's totals.
    pub(super) fn add(&mut self, kinds: &Kinds, work: &Work) {
        self.served += work.totals.served;
        self.violated += work.totals.violated;
        self.pending += work.totals.pending;
        if !kinds.of(work).class.is_lc() {
            self.best_effort += work.totals.work;
        }
    }
}

/// A run's numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The policy.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// Minutes in which services exceeded their SLO, or waited for a place.
    pub violated_minutes: f64,
    /// The same as a part of all their minutes.
    pub violated: f64,
    /// Best-effort work, CPU hours alone.
    pub best_effort_hours: f64,
    /// Minutes in which workloads waited for a place.
    pub pending_minutes: f64,
    /// Counts.
    pub count: Count,
    /// Moves that the policy itself judged, and those of them that helped.
    pub judged: (u32, u32),
}

/// A run: its numbers, the last view, and the judged moves.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The numbers.
    pub summary: Summary,
    /// The judged moves.
    pub judged: Vec<Judged>,
    /// The view of the last turn.
    pub view: ClusterView,
    /// The policy's last state.
    pub policy: AnyClusterPolicy,
}

impl Cluster {
    /// The counts up to now.
    #[must_use]
    pub fn count(&mut self) -> Count {
        self.settle_all();
        let mut count = self.count;
        for work in self.works.iter().filter(|work| work.present) {
            let mut work = work.clone();
            if let Some(since) = work.pending {
                work.wait(&self.kinds, seconds(self.clock.now()) - seconds(since));
            }
            count.add(&self.kinds, &work);
        }
        count
    }

    /// Runs a scenario under a policy; `turned` is called after each turn.
    ///
    /// # Errors
    /// If there is no such policy.
    pub fn simulate(
        scenario: &Scenario,
        policy: &str,
        seed: u64,
        turned: impl FnMut(&Cluster, &Stack<AnyClusterPolicy, ClusterDomain>),
    ) -> Result<Outcome, ClusterError> {
        Cluster::simulate_looking(scenario, policy, seed, Nanos::MAX, turned)
    }

    /// The same with a turn after this time at the latest, also where the policy waits for events alone.
    ///
    /// # Errors
    /// As [`Cluster::simulate`].
    pub fn simulate_looking(
        scenario: &Scenario,
        policy: &str,
        seed: u64,
        every: Nanos,
        mut turned: impl FnMut(&Cluster, &Stack<AnyClusterPolicy, ClusterDomain>),
    ) -> Result<Outcome, ClusterError> {
        let name = policy.to_owned();
        let policy = AnyClusterPolicy::named(policy, seed)?;
        let mut cluster = Cluster::new(scenario, seed)?;
        let layers = vec![Layer::new(policy, None)];
        let Ok(mut stack) = Stack::new(layers, ClusterView::default(), None) else {
            unreachable!("one layer overlaps with no other");
        };
        while !cluster.is_over() {
            let Ok(wake) = stack.turn(&mut cluster);
            turned(&cluster, &stack);
            let wake = match wake {
                Wake::At(at) if at <= cluster.now() && cluster.news.fresh.is_empty() => continue,
                wake => wake,
            };
            let at_latest = Nanos(cluster.now().0.saturating_add(every.0));
            let Ok(()) = cluster.wait(wake.sooner(Wake::At(at_latest)));
        }
        let count = cluster.count();
        let policy = stack.layers()[0].policy.clone();
        let helped = policy.judged().iter().filter(|judged| judged.helped).count();
        let summary = Summary {
            policy: name,
            seed,
            violated_minutes: count.violated / 60.0,
            violated: if count.served > 0.0 { count.violated / count.served } else { 0.0 },
            best_effort_hours: count.best_effort / 3600.0,
            pending_minutes: count.pending / 60.0,
            count,
            judged: (policy.judged().len() as u32, helped as u32),
        };
        Ok(Outcome { summary, judged: policy.judged().to_vec(), view: stack.view().clone(), policy })
    }
}
