//! The contract: a policy steps, a host observes and applies. The loop that drives them is [`crate::Stack`].

use serde::{Deserialize, Serialize};

use crate::{Domain, HostDomain, Nanos};

/// When a policy wants to step again. It also steps at every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wake {
    /// At this time of the view's clock.
    At(Nanos),
    /// Only when something happens.
    OnEvent,
}

impl Wake {
    /// The earlier of two wishes.
    #[must_use]
    pub fn sooner(self, other: Wake) -> Wake {
        match (self, other) {
            (Wake::At(a), Wake::At(b)) => Wake::At(a.min(b)),
            (Wake::At(at), Wake::OnEvent) | (Wake::OnEvent, Wake::At(at)) => Wake::At(at),
            (Wake::OnEvent, Wake::OnEvent) => Wake::OnEvent,
        }
    }
}

/// A deterministic state machine over what it has seen. It opens no file, asks for no time, draws no random number
/// that does not come from its own seed, and does not know which host it runs on.
pub trait Policy<D: Domain = HostDomain> {
    /// What it is and what it needs.
    fn describe(&self) -> &'static D::Description;

    /// The signals that it reads with its parameters: fewer than it describes where they turn a part of it off.
    fn signals(&self) -> D::Signals {
        D::signals(self.describe())
    }

    /// Looks, and writes what it wants done into an empty plan. After warm-up it must not allocate, except for notes
    /// about failures.
    ///
    /// **When.** In the first turn; when the time that it returned last has come; at every event, whoever it concerns;
    /// and in the turn after a plan of its own, for the outcomes. Never otherwise. Two calls may see the same time.
    ///
    /// **Events.** First the outcomes of its own last plan, one for each command that has one, in the order in which the
    /// host carries a plan out: knobs (one outcome for all), rules, grants, samples, leases. Then what happened on the
    /// host since the last turn, in the order in which it happened; every layer hears all of it. An outcome names its
    /// plan by the plan's number.
    ///
    /// **The view.** `scope` is this policy's own: its workloads, its pool, its knobs. What was not asked for by
    /// [`Policy::signals`] of any layer may be empty, absent or old: each sample says so.
    ///
    /// **The plan.** It is empty but for its number. Its knobs apply all or not at all; everything else command by
    /// command. It is carried out before the next layer of the stack steps, whose view is still this turn's: what
    /// changed is seen in the next turn. An empty plan leaves everything as it is.
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

/// A machine that can be observed and set, real or simulated; or whatever else the domain is about. It knows no policy.
pub trait Host<D: Domain = HostDomain> {
    /// Why it could not observe or obey at all. A command that failed is an outcome, not an error.
    type Error;

    /// What it can measure, set and do.
    fn capabilities(&self) -> D::Capabilities;

    /// Fills the view with the signals that were asked for, and appends what happened since the last call.
    ///
    /// # Errors
    /// If the machine cannot be observed at all.
    fn observe(
        &mut self,
        wanted: D::Signals,
        view: &mut D::View,
        events: &mut Vec<D::Event>,
    ) -> Result<(), Self::Error>;

    /// Carries a plan out and appends what became of each command, as events of the next step. Called once after each
    /// step of a policy, also with an empty plan.
    ///
    /// # Errors
    /// If the machine cannot be set at all.
    fn apply(&mut self, plan: &D::Plan, events: &mut Vec<D::Event>) -> Result<(), Self::Error>;

    /// Waits until then or until something happened, whichever comes first; it may return earlier. A simulated host
    /// moves its clock.
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
