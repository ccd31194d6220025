//! SDC beside a scheduler that places what waits, as in Kubernetes: it marks hosts and may move workloads, and the scheduler,
//! kube-scheduler's default rule, prefers hosts with lower marks.

use quell_model::cluster::{ClusterDescription, ClusterDomain, ClusterEvent, ClusterPlan, ClusterView};
use quell_model::{Policy, Wake};
use serde::{Deserialize, Serialize};

use super::baseline::{Baseline, Rule};
use super::config::SdcConfig;
use super::sdc::SdcGlobal;
use super::verify::Judged;

/// The two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    scheduler: Baseline,
    sdc: SdcGlobal,
}

impl Beside {
    /// With moves, or marks alone; the seed is that of choices among equals.
    #[must_use]
    pub fn new(moves: bool, seed: u64) -> Beside {
        let scheduler = Baseline::new(Rule::LeastAllocated, seed);
        Beside { scheduler, sdc: SdcGlobal::new(SdcConfig::beside(moves)) }
    }

    /// The judged moves.
    #[must_use]
    pub fn judged(&self) -> &[Judged] {
        self.sdc.judged()
    }
}

impl Policy<ClusterDomain> for Beside {
    fn describe(&self) -> &'static ClusterDescription {
        self.sdc.describe()
    }

    fn step(&mut self, view: &ClusterView, events: &[ClusterEvent], plan: &mut ClusterPlan) -> Wake {
        let placed = self.scheduler.step(view, events, plan);
        placed.sooner(self.sdc.step(view, events, plan))
    }
}
