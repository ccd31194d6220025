//! A snapshot of a turn, plain data.

use quell_model::{CpuSet, Event, Verdict, View, WorkloadId};

use crate::stack::Layer;

/// What one layer did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps.
    pub steps: u64,
    /// Knob settings asked for.
    pub knobs: u64,
    /// Grants and revocations asked for.
    pub grants: u64,
    /// Rules, samples and leases asked for.
    pub others: u64,
    /// Commands that the host refused.
    pub refused: u64,
}

impl Counts {
    pub(super) fn add(&mut self, layer: &Layer) {
        let plan = &layer.plan;
        self.steps += 1;
        self.knobs += plan.knobs.len() as u64;
        self.grants += plan.grants.len() as u64;
        self.others += (plan.rules.len() + plan.samples.len() + plan.leases.len()) as u64;
        let refused =
            |event: &&Event| matches!(event, Event::Outcome(outcome) if matches!(outcome.verdict, Verdict::Refused(_)));
        self.refused += layer.events.iter().filter(refused).count() as u64;
    }
}

/// One layer in a snapshot.
#[derive(Clone, Debug)]
pub struct LayerGlance {
    /// The policy's name.
    pub policy: &'static str,
    /// The workloads that it owns; None: all.
    pub workloads: Option<Vec<WorkloadId>>,
    /// Its pool in its last step.
    pub pool: CpuSet,
    /// What it did since the start.
    pub counts: Counts,
}

/// The machine and the layers as of one turn.
#[derive(Clone, Debug)]
pub struct Glance {
    /// Which turn; zero: there was none yet.
    pub turn: u64,
    /// What was seen.
    pub view: View,
    /// The layers, first to last.
    pub layers: Vec<LayerGlance>,
}

impl Glance {
    pub(super) fn new(view: &View, layers: &[Layer]) -> Glance {
        let layers = layers
            .iter()
            .map(|layer| LayerGlance {
                policy: quell_model::Policy::<quell_model::HostDomain>::describe(&layer.policy).name,
                workloads: layer.workloads.clone(),
                pool: layer.pool,
                counts: Counts::default(),
            })
            .collect();
        Glance { turn: 0, view: view.clone(), layers }
    }

    /// Becomes a snapshot of this turn; allocates nothing once the columns are large enough.
    pub(super) fn take(&mut self, turn: u64, view: &View, layers: &[Layer], counts: &[Counts]) {
        self.turn = turn;
        self.view.copy_from(view);
        for ((glance, layer), counts) in self.layers.iter_mut().zip(layers).zip(counts) {
            glance.workloads.clone_from(&layer.workloads);
            glance.pool = layer.pool;
            glance.counts = *counts;
        }
    }
}
