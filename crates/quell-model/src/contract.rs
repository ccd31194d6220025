//! The contract: a policy steps, a host observes and applies, one loop drives them.

use serde::{Deserialize, Serialize};

use crate::{Capabilities, Description, Event, Nanos, Outcome, Plan, SignalSet, View};

/// What the loop is about. The machine is one domain ([`HostDomain`]); a cluster, whose commands take tens of seconds,
/// is another.
pub trait Domain {
    /// What a policy sees.
    type View;
    /// What happened.
    type Event;
    /// What a policy wants done.
    type Plan;
}

/// One machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostDomain;

impl Domain for HostDomain {
    type View = View;
    type Event = Event;
    type Plan = Plan;
}

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
    fn describe(&self) -> &'static Description;

    /// The signals that it reads with its parameters: fewer than it describes where they turn a part of it off.
    fn signals(&self) -> SignalSet {
        self.describe().signal_set()
    }

    /// Looks, and writes what it wants done into an empty plan. After warm-up it must not allocate, except for notes
    /// about failures.
    fn step(&mut self, view: &D::View, events: &[D::Event], plan: &mut D::Plan) -> Wake;
}

/// A machine that can be observed and set, real or simulated. It knows no policy.
pub trait Host<D: Domain = HostDomain> {
    /// Why it could not observe or obey at all. A command that failed is an outcome, not an error.
    type Error;

    /// What it can measure, set and do.
    fn capabilities(&self) -> Capabilities;

    /// Fills the view with the signals that were asked for, and appends what happened since the last call.
    ///
    /// # Errors
    /// If the machine cannot be observed at all.
    fn observe(&mut self, wanted: SignalSet, view: &mut D::View, events: &mut Vec<D::Event>)
    -> Result<(), Self::Error>;

    /// Carries a plan out and appends what became of each command, as events of the next step.
    ///
    /// # Errors
    /// If the machine cannot be set at all.
    fn apply(&mut self, plan: &D::Plan, events: &mut Vec<D::Event>) -> Result<(), Self::Error>;

    /// Waits until the policy wants to step or something happened. A simulated host moves its clock.
    ///
    /// # Errors
    /// If waiting failed.
    fn wait(&mut self, until: Wake) -> Result<(), Self::Error>;
}

/// The loop's buffers: one view, the events, one plan, reused from step to step.
#[derive(Clone, Debug)]
pub struct Cycle<D: Domain> {
    /// What the policy saw in the last step.
    pub view: D::View,
    /// What had happened before the last step.
    pub events: Vec<D::Event>,
    /// What the policy wanted in the last step.
    pub plan: D::Plan,
    outcomes: Vec<D::Event>,
    steps: u64,
}

impl Cycle<HostDomain> {
    /// A cycle that begins with this view.
    #[must_use]
    pub fn new(view: View) -> Cycle<HostDomain> {
        Cycle { view, events: Vec::new(), plan: Plan::default(), outcomes: Vec::new(), steps: 0 }
    }

    /// Observe → step → apply, once. The outcomes of the plan are events of the next turn.
    ///
    /// # Errors
    /// The host's, if it could not observe or obey at all.
    pub fn turn<P, H>(&mut self, policy: &mut P, host: &mut H) -> Result<Wake, H::Error>
    where
        P: Policy + ?Sized,
        H: Host + ?Sized,
    {
        self.events.clear();
        self.events.append(&mut self.outcomes);
        host.observe(policy.signals(), &mut self.view, &mut self.events)?;
        self.steps += 1;
        self.plan.begin(self.steps);
        let wake = policy.step(&self.view, &self.events, &mut self.plan);
        host.apply(&self.plan, &mut self.outcomes)?;
        Ok(match wake {
            Wake::OnEvent if !self.outcomes.is_empty() => Wake::At(self.view.now),
            wake => wake,
        })
    }

    /// What became of the last plan's commands; the next turn hands them to the policy.
    #[must_use]
    pub fn outcomes(&self) -> &[Event] {
        &self.outcomes
    }

    /// What was refused in the last turn.
    pub fn refusals(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter_map(|event| match event {
            Event::Outcome(outcome) if matches!(outcome.verdict, crate::Verdict::Refused(_)) => Some(outcome),
            _ => None,
        })
    }
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
