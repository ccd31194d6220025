//! The contract: a policy steps, a host observes and applies. The loop that drives them is [`crate::Stack`].

use serde::{Deserialize, Serialize};

use crate::{Domain, HostDomain, Nanos};

/// Time of a policy's next step. It also steps at every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wake {
    /// At this time of the view's clock.
    At(Nanos),
    /// Only at an event.
    OnEvent,
}

impl Wake {
    /// The earlier of the two.
    #[must_use]
    pub fn sooner(self, other: Wake) -> Wake {
        match (self, other) {
            (Wake::At(a), Wake::At(b)) => Wake::At(a.min(b)),
            (Wake::At(at), Wake::OnEvent) | (Wake::OnEvent, Wake::At(at)) => Wake::At(at),
            (Wake::OnEvent, Wake::OnEvent) => Wake::OnEvent,
        }
    }
}

/// A deterministic state machine over its observations. It opens no file, reads no clock, takes random numbers only
/// from its own seed, and does not depend on the host.
pub trait Policy<D: Domain = HostDomain> {
    /// Its name and its needs.
    fn describe(&self) -> &'static D::Description;

    /// The signals that it reads with its present parameters: fewer than described where a parameter turns a part of it
    /// off.
    fn signals(&self) -> D::Signals {
        D::signals(self.describe())
    }

    /// Reads the view and the events, and writes its commands into an empty plan. After warm-up it must not allocate,
    /// except for notes about failures.
    ///
    /// **When.** In the first turn; at the time that it returned last; at every event, of any workload; and in the turn
    /// after a plan of its own, for the outcomes. Never otherwise. Two calls may have the same time.
    ///
    /// **Events.** First the outcomes of its own last plan, one for each command that has one, in the host's order of
    /// execution: knobs (one outcome for all), rules, grants, samples, leases. Then the host's events since the last
    /// turn, in the order of their occurrence; every layer gets all of them. An outcome names its plan by the plan's
    /// number.
    ///
    /// **The view.** `scope` is this policy's own: its workloads, its pool, its knobs. A signal outside the
    /// [`Policy::signals`] of all layers may be empty, absent or old: each sample says so.
    ///
    /// **The plan.** It is empty except for its number. Its knobs and rules apply all or not at all; everything else command
    /// by command. What the host declared impossible is taken out and has no outcome. The plan is carried out before the next
    /// layer of the stack steps. That layer's view is still this turn's: changes are visible in the next turn. An empty plan
    /// leaves everything as it is.
    fn step(&mut self, view: &D::View, events: &[D::Event], plan: &mut D::Plan) -> Wake;
}

impl<D: Domain, P: Policy<D> + ?Sized> Policy<D> for &mut P {
    fn describe(&self) -> &'static D::Description {
        (**self).describe()
    }

    fn signals(&self) -> D::Signals {
        (**self).signals()
    }

    fn step(&mut self, view: &D::View, events: &[D::Event], plan: &mut D::Plan) -> Wake {
        (**self).step(view, events, plan)
    }
}

/// A machine that can be observed and set, real or simulated (or the subject of another domain). It knows no policy.
pub trait Host<D: Domain = HostDomain> {
    /// Failure to observe or obey at all. A failed command is an outcome, not an error.
    type Error;

    /// The signals, knobs and rules that it supports.
    fn capabilities(&self) -> D::Capabilities;

    /// Fills the view with the requested signals, and appends the events since the last call.
    ///
    /// # Errors
    /// If the machine cannot be observed at all.
    fn observe(
        &mut self,
        wanted: D::Signals,
        view: &mut D::View,
        events: &mut Vec<D::Event>,
    ) -> Result<(), Self::Error>;

    /// Carries a plan out and appends an outcome for each command, as events of the next step. Called once after each
    /// step of a policy, also with an empty plan.
    ///
    /// # Errors
    /// If the machine cannot be set at all.
    fn apply(&mut self, plan: &D::Plan, events: &mut Vec<D::Event>) -> Result<(), Self::Error>;

    /// Waits until `until` or the next event, whichever comes first; it may return earlier. A simulated host advances
    /// its clock.
    ///
    /// # Errors
    /// If waiting failed.
    fn wait(&mut self, until: Wake) -> Result<(), Self::Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sooner_wake_wins() {
        assert_eq!(Wake::OnEvent.sooner(Wake::At(Nanos(3))), Wake::At(Nanos(3)));
        assert_eq!(Wake::At(Nanos(2)).sooner(Wake::At(Nanos(3))), Wake::At(Nanos(2)));
        assert_eq!(Wake::OnEvent.sooner(Wake::OnEvent), Wake::OnEvent);
    }
}
