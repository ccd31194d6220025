//! A stack of policies on one host. What one layer leaves of its CPUs is the next one's pool.

use quell_model::{
    CpuSet, Event, Host, KnobKind, Nanos, Overlap, Plan, Policy, Scope, SignalSet, View, Wake, WorkloadId,
};
use quell_policy::AnyPolicy;

use crate::AgentError;

/// One policy of a stack, with its scope and what became of its last plan.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The policy.
    pub policy: AnyPolicy,
    /// The workloads that it owns; None: all.
    pub workloads: Option<Vec<WorkloadId>>,
    /// The CPUs that were its pool in its last step.
    pub pool: CpuSet,
    /// What had happened before its last step.
    pub events: Vec<Event>,
    /// What it wanted in its last step.
    pub plan: Plan,
    /// What became of that.
    pub outcomes: Vec<Event>,
    wake: Wake,
    leaves: CpuSet,
    stepped: bool,
}

impl Layer {
    /// A layer that steps at the next turn.
    #[must_use]
    pub fn new(policy: AnyPolicy, workloads: Option<Vec<WorkloadId>>) -> Layer {
        Layer {
            policy,
            workloads,
            pool: CpuSet::EMPTY,
            events: Vec::new(),
            plan: Plan::default(),
            outcomes: Vec::new(),
            wake: Wake::At(Nanos::ZERO),
            leaves: CpuSet::EMPTY,
            stepped: false,
        }
    }

    /// Did it step in the last turn?
    #[must_use]
    pub fn stepped(&self) -> bool {
        self.stepped
    }

    /// What it owns when its pool is these CPUs. Who grants CPUs decides where threads run, as who binds them does.
    #[must_use]
    pub fn scope(&self, pool: CpuSet) -> Scope {
        let policy = self.policy.describe();
        let grants = policy.grants.then_some(KnobKind::Cpus);
        let knobs = policy.knobs.iter().map(|need| need.what).chain(grants).collect::<Vec<KnobKind>>();
        Scope { workloads: self.workloads.clone(), pool, knobs }
    }
}

/// What each two layers would both set: the layers' places in the stack, and the first such knob.
#[must_use]
pub fn overlaps(layers: &[Layer], pool: CpuSet) -> Vec<(usize, usize, Overlap)> {
    let scopes: Vec<Scope> = layers.iter().map(|layer| layer.scope(pool)).collect();
    let pairs = (0..scopes.len()).flat_map(|second| (0..second).map(move |first| (first, second)));
    pairs.filter_map(|(first, second)| Some((first, second, scopes[first].overlap(&scopes[second])?))).collect()
}

/// What only people want to see is measured this often …
const PEOPLE_EVERY: Nanos = Nanos::from_secs(1);
/// … and takes at most a hundredth of a CPU: where that is more, it is measured less often.
const PEOPLE_SHARE: u64 = 100;

/// Sees every turn and cannot change it. Called on the loop's thread: it must be quick, and must not wait for anybody.
pub trait Witness {
    /// A turn is over; `view.scope` is the last layer's.
    fn turned(&mut self, view: &View, layers: &[Layer]);
}

impl Witness for () {
    fn turned(&mut self, _: &View, _: &[Layer]) {}
}

/// The layers in order, the view that they share, and the CPUs that they manage.
#[derive(Clone, Debug)]
pub struct Stack {
    layers: Vec<Layer>,
    view: View,
    pool: CpuSet,
    scopes: Vec<Scope>,
    fresh: Vec<Event>,
    wanted: SignalSet,
    people_want: SignalSet,
    people_at: Nanos,
    plans: u64,
}

impl Stack {
    /// A stack over these CPUs.
    ///
    /// # Errors
    /// [`AgentError::Overlap`] if two layers would set the same knob on the same workload.
    pub fn new(layers: Vec<Layer>, view: View, pool: CpuSet) -> Result<Stack, AgentError> {
        let scopes = layers.iter().map(|layer| layer.scope(pool)).collect();
        if let Some(&(first, second, overlap)) = overlaps(&layers, pool).first() {
            return Err(AgentError::Overlap {
                first: layers[first].policy.describe().name,
                second: layers[second].policy.describe().name,
                knob: overlap.knob.name(),
                on: overlap.workload.map_or("on every workload".into(), |id| {
                    let name = view.workloads.spec.get(id.index()).and_then(|spec| spec.as_ref());
                    name.map_or(format!("on workload {}", id.0), |spec| format!("on '{}'", spec.name))
                }),
            });
        }
        let wanted = layers.iter().fold(SignalSet::default(), |set, layer| set.union(layer.policy.signals()));
        Ok(Stack {
            layers,
            view,
            pool,
            scopes,
            fresh: Vec::new(),
            wanted,
            people_want: SignalSet::default(),
            people_at: Nanos::ZERO,
            plans: 0,
        })
    }

    /// The layers, first to last.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// What was seen in the last turn.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Gives a layer other workloads (None: all), from the next turn on.
    pub fn assign(&mut self, layer: usize, workloads: Option<Vec<WorkloadId>>) {
        if let (Some(layer), Some(scope)) = (self.layers.get_mut(layer), self.scopes.get_mut(layer)) {
            scope.workloads.clone_from(&workloads);
            layer.workloads = workloads;
        }
    }

    /// Also measure these signals from now on, although no policy needs them (for people who watch): once a second, or
    /// less often where that would take more than a hundredth of a CPU, because they may mean a file a thread.
    pub fn also_measure(&mut self, signals: SignalSet) {
        self.people_want = signals;
    }

    /// Observes once; then every layer that is due steps and its plan is applied. Returns when the next turn is due.
    ///
    /// # Errors
    /// The host's, if it could not observe or obey at all.
    pub fn turn<H: Host + ?Sized>(&mut self, host: &mut H) -> Result<Wake, H::Error> {
        self.fresh.clear();
        // As seen from the last turn, which is soon enough.
        let mut wanted = self.wanted;
        let for_people = self.view.now >= self.people_at;
        if for_people {
            wanted = wanted.union(self.people_want);
        }
        let begun = for_people.then(quell_linux::cpu_time);
        host.observe(wanted, &mut self.view, &mut self.fresh)?;
        if let Some(begun) = begun {
            // What the first look opens and sets up is no measure of the next.
            let first = self.people_at == Nanos::ZERO;
            let cost = if first { Nanos::ZERO } else { quell_linux::cpu_time() - begun };
            self.people_at = self.view.now + PEOPLE_EVERY.max(Nanos(cost.0 * PEOPLE_SHARE));
        }
        let mut pool = self.pool;
        let mut next = Wake::OnEvent;
        for (layer, scope) in self.layers.iter_mut().zip(&mut self.scopes) {
            scope.pool = pool;
            let due = matches!(layer.wake, Wake::At(at) if at <= self.view.now);
            layer.stepped = due || !self.fresh.is_empty() || !layer.outcomes.is_empty();
            if layer.stepped {
                layer.pool = pool;
                layer.events.clear();
                layer.events.append(&mut layer.outcomes);
                layer.events.extend(self.fresh.iter().cloned());
                self.plans += 1;
                layer.plan.begin(self.plans);
                std::mem::swap(&mut self.view.scope, scope);
                layer.wake = layer.policy.step(&self.view, &layer.events, &mut layer.plan);
                std::mem::swap(&mut self.view.scope, scope);
                layer.leaves = layer.plan.leaves.unwrap_or(pool);
                if !layer.plan.is_idle() {
                    host.apply(&layer.plan, &mut layer.outcomes)?;
                }
            }
            pool = layer.leaves;
            let wake = match layer.wake {
                Wake::OnEvent if !layer.outcomes.is_empty() => Wake::At(self.view.now),
                wake => wake,
            };
            next = next.sooner(wake);
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::Topology;

    fn layer(name: &str, workloads: Option<Vec<WorkloadId>>) -> Layer {
        Layer::new(AnyPolicy::named(name).unwrap(), workloads)
    }

    fn view() -> View {
        View::new(Topology::synthetic(1, 1, 4, 1).into())
    }

    #[test]
    fn two_policies_for_one_knob_are_refused_by_name() {
        let pool = CpuSet::first(4);
        let both = vec![layer("rkube", None), layer("rkube", Some(vec![WorkloadId(0)]))];
        let text = Stack::new(both, view(), pool).unwrap_err().to_string();
        assert!(text.contains("'rkube' and 'rkube'") && text.contains("'CPU set'"), "{text}");
        let apart = vec![layer("rkube", None), layer("guard", None)];
        assert!(Stack::new(apart, view(), pool).is_ok(), "they set different knobs");
    }
}
