//! The policy as experiments with its search for an aggressor need it: it searches once, at a time of theirs.

use quell_model::{Description, Event, Nanos, Plan, Policy, SignalSet, View, Wake, WorkloadId};

use super::EdgeIso;

/// The policy, made to search the aggressor of the first workload as soon as it can from a time on.
#[derive(Clone, Debug)]
pub struct Searching {
    /// The policy.
    pub policy: EdgeIso,
    from: Nanos,
    begun: Option<Nanos>,
}

impl Searching {
    /// From this time of the host's clock on.
    #[must_use]
    pub fn new(policy: EdgeIso, from: Nanos) -> Searching {
        Searching { policy, from, begun: None }
    }

    /// When the search began.
    #[must_use]
    pub fn begun(&self) -> Option<Nanos> {
        self.begun
    }
}

impl Policy for Searching {
    fn describe(&self) -> &'static Description {
        self.policy.describe()
    }

    fn signals(&self) -> SignalSet {
        self.policy.signals()
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let now = view.now;
        let may = self.begun.is_none() && now >= self.from;
        if may && (self.policy.is_searching() || self.policy.search_aggressor(WorkloadId(0), now)) {
            self.begun = Some(now);
        }
        self.policy.step(view, events, plan)
    }
}
