//! The types of one domain, and the few operations on them that the loop needs.

use std::fmt::Debug;

use crate::{
    Capabilities, CpuSet, Description, Event, Impossible, KnobKind, KnobSetting, Nanos, Overlap, Plan, Scope,
    SignalSet, View, WorkloadId,
};

/// A domain: its view, events and plans. The machine is one ([`HostDomain`]); a cluster, whose commands take tens of
/// seconds and fail, is another. The loop ([`crate::Stack`]) knows no more of it than this.
pub trait Domain: Sized {
    /// The observations of a policy.
    type View: Clone + Debug;
    /// An event; command outcomes are events.
    type Event: Clone + Debug;
    /// The commands of a policy.
    type Plan: Clone + Debug + Default;
    /// A set of things that can be measured; by default none.
    type Signals: Copy + Debug + Default;
    /// A policy's description of itself.
    type Description: 'static;
    /// A host's description of itself.
    type Capabilities;
    /// The part of the domain that one layer of a stack may decide about.
    type Scope: Clone + Debug;
    /// The resource that layers share: each gets the rest of the layer before.
    type Pool: Clone + Debug + Default;
    /// An element of two scopes.
    type Overlap: Copy + Debug;
    /// Commands that a host declared impossible.
    type Impossible: Clone + Debug + Default;

    /// The view's time.
    fn now(view: &Self::View) -> Nanos;
    /// The scope of the layer that steps.
    fn scope(view: &mut Self::View) -> &mut Self::Scope;
    /// The signals that a policy reads by its description.
    fn signals(description: &Self::Description) -> Self::Signals;
    /// The signals of both sets.
    fn union(one: Self::Signals, other: Self::Signals) -> Self::Signals;
    /// The scope of a policy with these workloads (None: all) and this pool.
    fn owned(description: &Self::Description, workloads: Option<Vec<WorkloadId>>, pool: &Self::Pool) -> Self::Scope;
    /// Gives a scope other workloads.
    fn assign(scope: &mut Self::Scope, workloads: Option<Vec<WorkloadId>>);
    /// Gives a scope another pool.
    fn lend(scope: &mut Self::Scope, pool: &Self::Pool);
    /// An element of both scopes, if any.
    fn overlap(one: &Self::Scope, other: &Self::Scope) -> Option<Self::Overlap>;
    /// Empties a plan for the next step and keeps its memory.
    fn begin(plan: &mut Self::Plan, number: u64);
    /// The part of its pool that the plan leaves to the next layer; None: all of it.
    fn left(plan: &Self::Plan) -> Option<&Self::Pool>;
    /// Takes out of a plan what the host declared impossible: it is known as a limit, and no refusal of each plan.
    fn curb(plan: &mut Self::Plan, impossible: &Self::Impossible);
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
    type Impossible = Impossible;

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

    /// A policy that grants CPUs decides the placement of threads, as one that binds them does.
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

    #[inline]
    fn curb(plan: &mut Plan, impossible: &Impossible) {
        if !impossible.rules.is_empty() {
            plan.rules.retain(|rule| !impossible.rules.contains(&rule.kind()));
        }
        let is_possible = |setting: &KnobSetting| !impossible.knobs.contains(&setting.knob.kind());
        // A plan of nothing else goes to the host, whose refusal is the outcome that its policy waits for.
        if !impossible.knobs.is_empty() && plan.knobs.iter().any(is_possible) {
            plan.knobs.retain(is_possible);
        }
    }
}
