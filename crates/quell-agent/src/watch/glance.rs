//! A snapshot of a turn, plain data.

use quell_model::trial::{Finding, Then};
use quell_model::{CpuSet, Event, Nanos, Verdict, View, WorkloadId};

use crate::stack::Layer;

/// Counts of one layer since the start.
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
    /// Trials that ended, by what they showed.
    pub trials: Trials,
}

/// Trials that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trials {
    /// The victim was better off.
    pub helped: u64,
    /// It was worse off.
    pub harmed: u64,
    /// Neither.
    pub no_effect: u64,
    /// Windows were missing, or the load moved.
    pub unclear: u64,
    /// The host refused a step, or another phase began.
    pub aborted: u64,
}

impl Trials {
    fn add(&mut self, finding: Finding) {
        let count = match finding {
            Finding::Begun => return,
            Finding::Helped => &mut self.helped,
            Finding::Harmed => &mut self.harmed,
            Finding::NoEffect => &mut self.no_effect,
            Finding::Unclear => &mut self.unclear,
            Finding::Refused | Finding::Overtaken => &mut self.aborted,
        };
        *count += 1;
    }
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
        let ended = plan.trials.iter().filter(|trial| !matches!(trial.then, Then::Going | Then::Again));
        ended.for_each(|trial| self.trials.add(trial.finding));
    }
}

/// Budgets of a workload's servers that were used up before their period's end, since it attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exhausted {
    /// Periods in which that happened, over all servers.
    pub times: u64,
    /// The longest run beyond a budget.
    pub longest_overrun: Nanos,
}

impl Exhausted {
    /// Takes in an event; by slot.
    pub(super) fn note(all: &mut Vec<Exhausted>, event: &Event) {
        let (Event::BudgetExhausted(id, ..) | Event::Attached(id)) = event else { return };
        if all.len() <= id.index() {
            all.resize(id.index() + 1, Exhausted::default());
        }
        let own = &mut all[id.index()];
        match event {
            Event::BudgetExhausted(.., overrun) => {
                own.times += 1;
                own.longest_overrun = own.longest_overrun.max(*overrun);
            }
            _ => *own = Exhausted::default(),
        }
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
    /// Its counts since the start.
    pub counts: Counts,
}

impl LayerGlance {
    fn of(layer: &Layer) -> LayerGlance {
        let (workloads, counts) = (layer.workloads.clone(), Counts::default());
        LayerGlance { policy: name(layer), workloads, pool: layer.pool, counts }
    }
}

fn name(layer: &Layer) -> &'static str {
    quell_model::Policy::<quell_model::HostDomain>::describe(&layer.policy).name
}

/// The machine and the layers as of one turn.
#[derive(Clone, Debug)]
pub struct Glance {
    /// Number of the turn; zero: there was none yet.
    pub turn: u64,
    /// The observations.
    pub view: View,
    /// The layers, first to last.
    pub layers: Vec<LayerGlance>,
    /// By slot, for workloads with an exhausted budget so far.
    pub exhausted: Vec<Exhausted>,
}

impl Glance {
    pub(super) fn new(view: &View, layers: &[Layer]) -> Glance {
        let layers = layers.iter().map(LayerGlance::of).collect();
        Glance { turn: 0, view: view.clone(), layers, exhausted: Vec::new() }
    }

    /// Becomes a snapshot of this turn; allocates nothing once the columns are large enough.
    pub(super) fn take(
        &mut self,
        turn: u64,
        view: &View,
        layers: &[Layer],
        counts: &[Counts],
        exhausted: &[Exhausted],
    ) {
        self.turn = turn;
        self.exhausted.clear();
        self.exhausted.extend_from_slice(exhausted);
        self.view.copy_from(view);
        let is_same = |(glance, layer): (&LayerGlance, &Layer)| glance.policy == name(layer);
        if self.layers.len() != layers.len() || !self.layers.iter().zip(layers).all(is_same) {
            self.layers = layers.iter().map(LayerGlance::of).collect();
        }
        for ((glance, layer), counts) in self.layers.iter_mut().zip(layers).zip(counts) {
            glance.workloads.clone_from(&layer.workloads);
            glance.pool = layer.pool.intersection(&view.cpus.online);
            glance.counts = *counts;
        }
    }
}
