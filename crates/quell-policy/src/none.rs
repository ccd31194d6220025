//! `none`: Linux as it is. The baseline that decides nothing.

use quell_model::{Description, Event, Nanos, Plan, Policy, View, Wake};
use serde::{Deserialize, Serialize};

use crate::invariant::{Calm, Invariants};
use crate::parameter::parameters;

/// Decides nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoPolicy {}

parameters! {
    /// `none` has no parameters.
    pub struct NoConfig {}
    check(config) { Ok(()) }
}

impl NoPolicy {
    /// The policy.
    #[must_use]
    pub fn new(_: NoConfig) -> NoPolicy {
        NoPolicy {}
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "none",
        summary: "Linux as it is: nothing is decided",
        source: "the kernel's own scheduler",
        interval: Nanos::ZERO,
        signals: &[],
        knobs: &[],
        rules: &[],
        keys: &[],
        grants: false,
    };
}

impl Policy for NoPolicy {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    fn step(&mut self, _: &View, _: &[Event], _: &mut Plan) -> Wake {
        Wake::OnEvent
    }
}

impl Invariants for NoPolicy {
    fn check(&self, calm: &Calm<'_>) {
        assert_eq!(calm.knobs_set, 0, "it sets nothing");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::{Topology, WorkloadId};

    #[test]
    fn it_does_nothing_whatever_happens() {
        let view = View::new(Topology::synthetic(1, 1, 2, 1).into());
        let mut plan = Plan::default();
        let wake = NoPolicy {}.step(&view, &[Event::Attached(WorkloadId(0))], &mut plan);
        assert_eq!((wake, plan), (Wake::OnEvent, Plan::default()));
    }
}
