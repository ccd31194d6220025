//! What the loop is about: the types of one domain, and the few things that the loop does with them.

use std::fmt::Debug;

use crate::{
    Capabilities, CpuSet, Description, Event, KnobKind, Nanos, Overlap, Plan, Scope, SignalSet, View, WorkloadId,
};

/// A domain: what is seen, what happens, what can be wanted. The machine is one ([`HostDomain`]); a cluster, whose
/// commands take tens of seconds and fail, is another. The loop ([`crate::Stack`]) knows no more of it than this.
pub trait Domain: Sized {
    /// What a policy sees.
    type View: Clone + Debug;
    /// What happened, outcomes of commands among it.
    type Event: Clone + Debug;
    /// What a policy wants done.
    type Plan: Clone + Debug + Default;
    /// A set of things that can be measured; by default none.
    type Signals: Copy + Debug + Default;
    /// What a policy says of itself.
    type Description: 'static;
    /// What a host says of itself.
    type Capabilities;
    /// What one layer of a stack may decide about.
    type Scope: Clone + Debug;
    /// What the layers share: each has what the one before left.
    type Pool: Clone + Debug + Default;
    /// What two scopes both claim.
    type Overlap: Copy + Debug;

    /// The view's time.
    fn now(view: &Self::View) -> Nanos;
    /// The scope of the layer that steps.
    fn scope(view: &mut Self::View) -> &mut Self::Scope;
    /// The signals that a policy reads by its description.
    fn signals(description: &Self::Description) -> Self::Signals;
    /// The signals of both sets.
    fn union(one: Self::Signals, other: Self::Signals) -> Self::Signals;
    /// What a policy owns that has these workloads (None: all) and this pool.
    fn owned(description: &Self::Description, workloads: Option<Vec<WorkloadId>>, pool: &Self::Pool) -> Self::Scope;
    /// Gives a scope other workloads.
    fn assign(scope: &mut Self::Scope, workloads: Option<Vec<WorkloadId>>);
    /// Gives a scope another pool.
    fn lend(scope: &mut Self::Scope, pool: &Self::Pool);
    /// What two scopes both claim, if anything.
    fn overlap(one: &Self::Scope, other: &Self::Scope) -> Option<Self::Overlap>;
    /// Empties a plan for the next step and keeps its memory.
    fn begin(plan: &mut Self::Plan, number: u64);
    /// What the plan leaves of its pool to the next layer; None: all of it.
    fn left(plan: &Self::Plan) -> Option<&Self::Pool>;
}

/// One machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostDomain;

impl Domain for HostDomain {
    type View = View;
    type Event = Event;
    type Plan = Plan;
    type Signals = SignalSet;
    type Description = Description;
    type Capabilities = Capabilities;
    type Scope = Scope;
    type Pool = CpuSet;
    type Overlap = Overlap;

    #[inline]
    fn now(view: &View) -> Nanos {
        view.now
    }

    #[inline]
    fn scope(view: &mut View) -> &mut Scope {
        &mut view.scope
    }

    fn signals(description: &Description) -> SignalSet {
        description.signal_set()
    }

    fn union(one: SignalSet, other: SignalSet) -> SignalSet {
        one.union(other)
    }

    /// Who grants CPUs decides where threads run, as who binds them does.
    fn owned(description: &Description, workloads: Option<Vec<WorkloadId>>, pool: &CpuSet) -> Scope {
        let grants = description.grants.then_some(KnobKind::Cpus);
        let knobs = description.knobs.iter().map(|need| need.what).chain(grants).collect();
        let rules = description.rules.iter().map(|need| need.what).collect();
        Scope { workloads, pool: *pool, knobs, rules }
    }

    fn assign(scope: &mut Scope, workloads: Option<Vec<WorkloadId>>) {
        scope.workloads = workloads;
    }

    #[inline]
    fn lend(scope: &mut Scope, pool: &CpuSet) {
        scope.pool = *pool;
    }

    fn overlap(one: &Scope, other: &Scope) -> Option<Overlap> {
        one.overlap(other)
    }

    #[inline]
    fn begin(plan: &mut Plan, number: u64) {
        plan.begin(number);
    }

    #[inline]
    fn left(plan: &Plan) -> Option<&CpuSet> {
        plan.leaves.as_ref()
    }
}
