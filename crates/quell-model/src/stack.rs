//! The loop: observe → step → apply, over a stack of policies. The rest of one layer's pool is the next one's.

use crate::{Domain, Event, Host, HostDomain, Nanos, Outcome, Policy, Verdict, Wake, WorkloadId};

/// One policy of a stack, with its scope and the outcome of its last plan.
#[derive(Clone, Debug)]
pub struct Layer<P, D: Domain = HostDomain> {
    /// The policy.
    pub policy: P,
    /// The workloads that it owns; None: all.
    pub workloads: Option<Vec<WorkloadId>>,
    /// Its pool in its last step.
    pub pool: D::Pool,
    /// The events before its last step.
    pub events: Vec<D::Event>,
    /// The plan of its last step.
    pub plan: D::Plan,
    /// The plan's outcomes, for its next step.
    pub outcomes: Vec<D::Event>,
    /// What the host declared impossible: it is in none of its plans.
    pub impossible: D::Impossible,
    wake: Wake,
    leaves: Option<D::Pool>,
    stepped: bool,
}

impl<P: Policy<D>, D: Domain> Layer<P, D> {
    /// A layer that steps at the next turn.
    #[must_use]
    pub fn new(policy: P, workloads: Option<Vec<WorkloadId>>) -> Layer<P, D> {
        Layer {
            policy,
            workloads,
            pool: D::Pool::default(),
            events: Vec::new(),
            plan: D::Plan::default(),
            outcomes: Vec::new(),
            impossible: D::Impossible::default(),
            wake: Wake::At(Nanos::ZERO),
            leaves: None,
            stepped: false,
        }
    }

    /// Did it step in the last turn?
    #[must_use]
    pub fn stepped(&self) -> bool {
        self.stepped
    }

    /// Its scope with this pool.
    #[must_use]
    pub fn scope(&self, pool: &D::Pool) -> D::Scope {
        D::owned(self.policy.describe(), self.workloads.clone(), pool)
    }

    /// Does it step in this turn?
    fn is_due(&self, now: Nanos, fresh: &[D::Event]) -> bool {
        matches!(self.wake, Wake::At(at) if at <= now) || !fresh.is_empty() || !self.outcomes.is_empty()
    }
}

impl<P> Layer<P> {
    /// The refused commands of its last plan.
    pub fn refusals(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter_map(|event| match event {
            Event::Outcome(outcome) if matches!(outcome.verdict, Verdict::Refused(_)) => Some(outcome),
            _ => None,
        })
    }
}

/// An overlap of two layers of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clash<O> {
    /// One layer's place in the stack.
    pub first: usize,
    /// The other's.
    pub second: usize,
    /// The first element that both would set.
    pub overlap: O,
}

/// The overlaps of each pair of layers if the first has this pool.
#[must_use]
pub fn clashes<P: Policy<D>, D: Domain>(layers: &[Layer<P, D>], pool: &D::Pool) -> Vec<Clash<D::Overlap>> {
    let scopes: Vec<D::Scope> = layers.iter().map(|layer| layer.scope(pool)).collect();
    let pairs = (0..scopes.len()).flat_map(|second| (0..second).map(move |first| (first, second)));
    let clash = |(first, second): (usize, usize)| {
        Some(Clash { first, second, overlap: D::overlap(&scopes[first], &scopes[second])? })
    };
    pairs.filter_map(clash).collect()
}

/// Interval of measurements that only people want to see …
const PEOPLE_EVERY: Nanos = Nanos::from_secs(1);
/// … and their bound, four thousandths of a CPU: beyond it they are taken less often.
const PEOPLE_SHARE: u64 = 250;

/// The signals that people want to see, and the clock for the cost of measuring them.
#[derive(Clone, Copy, Debug)]
struct People<D: Domain> {
    signals: D::Signals,
    /// CPU time of the measuring thread.
    cpu_time: fn() -> Nanos,
    next: Nanos,
}

/// The layers in order, the view that they share, and the pool of the first.
#[derive(Clone, Debug)]
pub struct Stack<P, D: Domain = HostDomain> {
    layers: Vec<Layer<P, D>>,
    scopes: Vec<D::Scope>,
    view: D::View,
    pool: D::Pool,
    fresh: Vec<D::Event>,
    wanted: D::Signals,
    people: Option<People<D>>,
    plans: u64,
}

impl<P: Policy<D>, D: Domain> Stack<P, D> {
    /// A stack over this pool.
    ///
    /// # Errors
    /// If two layers would set the same on the same workload.
    pub fn new(layers: Vec<Layer<P, D>>, view: D::View, pool: D::Pool) -> Result<Stack<P, D>, Clash<D::Overlap>> {
        if let Some(&clash) = clashes(&layers, &pool).first() {
            return Err(clash);
        }
        let scopes = layers.iter().map(|layer| layer.scope(&pool)).collect();
        let wanted = layers.iter().fold(D::Signals::default(), |set, layer| D::union(set, layer.policy.signals()));
        Ok(Stack { layers, scopes, view, pool, fresh: Vec::new(), wanted, people: None, plans: 0 })
    }

    /// The layers, first to last.
    #[must_use]
    pub fn layers(&self) -> &[Layer<P, D>] {
        &self.layers
    }

    /// The layers that stepped in the last turn, first to last.
    pub fn stepped(&self) -> impl Iterator<Item = &Layer<P, D>> {
        self.layers.iter().filter(|layer| layer.stepped)
    }

    /// The observations of the last turn. The scope is no layer's.
    #[must_use]
    pub fn view(&self) -> &D::View {
        &self.view
    }

    /// Gives a layer other workloads (None: all), from the next turn on.
    pub fn assign(&mut self, layer: usize, workloads: Option<Vec<WorkloadId>>) {
        if let (Some(layer), Some(scope)) = (self.layers.get_mut(layer), self.scopes.get_mut(layer)) {
            D::assign(scope, workloads.clone());
            layer.workloads = workloads;
        }
    }

    /// Adds a layer after the others, from the next turn on; what was measured and planned before stays.
    ///
    /// # Errors
    /// If it would set the same as another layer on the same workload; the stack stays as it is.
    pub fn push(&mut self, layer: Layer<P, D>) -> Result<(), Clash<D::Overlap>> {
        let scope = layer.scope(&self.pool);
        let clash = |(first, other): (usize, &D::Scope)| {
            Some(Clash { first, second: self.scopes.len(), overlap: D::overlap(other, &scope)? })
        };
        if let Some(clash) = self.scopes.iter().enumerate().find_map(clash) {
            return Err(clash);
        }
        self.wanted = D::union(self.wanted, layer.policy.signals());
        self.scopes.push(scope);
        self.layers.push(layer);
        Ok(())
    }

    /// Takes a layer out, from the next turn on. What it has set is left to the caller.
    pub fn remove(&mut self, layer: usize) -> Layer<P, D> {
        let removed = self.layers.remove(layer);
        self.scopes.remove(layer);
        self.wanted =
            self.layers.iter().fold(D::Signals::default(), |set, layer| D::union(set, layer.policy.signals()));
        removed
    }

    /// Also measures these signals from now on, although no policy needs them (for people who watch): once a second, or
    /// less often where that would take more than four thousandths of a CPU, because they may mean a file a thread.
    /// `cpu_time` returns the CPU time that the calling thread has used.
    pub fn also_measure(&mut self, signals: D::Signals, cpu_time: fn() -> Nanos) {
        self.people = Some(People { signals, cpu_time, next: Nanos::ZERO });
    }

    /// Makes every layer step in the next turn, whatever it waits for.
    pub fn hasten(&mut self) {
        self.layers.iter_mut().for_each(|layer| layer.wake = Wake::At(Nanos::ZERO));
    }

    /// Observes once; then every layer that is due steps and its plan is applied. Returns the time of the next turn.
    ///
    /// # Errors
    /// The host's, if it could not observe or obey at all.
    pub fn turn<H: Host<D> + ?Sized>(&mut self, host: &mut H) -> Result<Wake, H::Error> {
        self.fresh.clear();
        self.observe(host)?;
        let now = D::now(&self.view);
        let mut pool = &self.pool;
        let mut next = Wake::OnEvent;
        for (layer, scope) in self.layers.iter_mut().zip(&mut self.scopes) {
            layer.stepped = layer.is_due(now, &self.fresh);
            if layer.stepped {
                D::lend(scope, pool);
                layer.pool = pool.clone();
                layer.events.clear();
                layer.events.append(&mut layer.outcomes);
                layer.events.extend(self.fresh.iter().cloned());
                self.plans += 1;
                D::begin(&mut layer.plan, self.plans);
                std::mem::swap(D::scope(&mut self.view), scope);
                layer.wake = layer.policy.step(&self.view, &layer.events, &mut layer.plan);
                std::mem::swap(D::scope(&mut self.view), scope);
                D::curb(&mut layer.plan, &layer.impossible);
                layer.leaves = D::left(&layer.plan).cloned();
                host.apply(&layer.plan, &mut layer.outcomes)?;
            }
            pool = layer.leaves.as_ref().unwrap_or(pool);
            next = next.sooner(match layer.wake {
                Wake::OnEvent if !layer.outcomes.is_empty() => Wake::At(now),
                wake => wake,
            });
        }
        Ok(next)
    }

    /// Observes the wanted signals; those for people only at their interval.
    fn observe<H: Host<D> + ?Sized>(&mut self, host: &mut H) -> Result<(), H::Error> {
        // Time of the last turn, which is recent enough.
        let seen_last = D::now(&self.view);
        let Some(people) = self.people.as_mut().filter(|people| people.next <= seen_last) else {
            return host.observe(self.wanted, &mut self.view, &mut self.fresh);
        };
        let begun = (people.cpu_time)();
        host.observe(D::union(self.wanted, people.signals), &mut self.view, &mut self.fresh)?;
        // The first observation opens and sets up files: its cost says nothing about the next.
        let is_first = people.next == Nanos::ZERO;
        let cost = if is_first { Nanos::ZERO } else { (people.cpu_time)() - begun };
        people.next = D::now(&self.view) + PEOPLE_EVERY.max(Nanos(cost.0 * PEOPLE_SHARE));
        Ok(())
    }
}

impl<P: Policy> Stack<P> {
    /// A stack of one policy, which owns all workloads and all CPUs of the view's topology.
    #[must_use]
    pub fn of_one(policy: P, view: crate::View) -> Stack<P> {
        let pool = view.topology.all();
        Stack::new(vec![Layer::new(policy, None)], view, pool).expect("one layer overlaps with no other")
    }

    /// The first layer.
    #[must_use]
    pub fn first(&self) -> &Layer<P> {
        &self.layers[0]
    }
}
