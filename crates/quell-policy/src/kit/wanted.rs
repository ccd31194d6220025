//! Wanted → difference → plan → outcome → settled, or tried again.

use quell_model::{Event, Knob, KnobKind, KnobSetting, Nanos, Part, Plan, Target, Verdict, Wake, WorkloadId};
use serde::{Deserialize, Serialize};

use super::retry::Retry;

/// A policy's wanted settings, against the host's present ones.
///
/// A policy states all its settings ([`Wanted::want`]); those that the host does not have yet are written into the
/// plan. It passes every event on ([`Wanted::handle`]), and states its settings again when that [is due](Wanted::is_due).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// The host's settings.
    settled: Vec<KnobSetting>,
    /// The settings after the plan that is under way, and the plan's number.
    under_way: Option<(u64, Vec<KnobSetting>)>,
    retry: Retry,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted { settled: Vec::new(), under_way: None, retry: Retry::up_to(Self::LAST_RETRY) }
    }
}

impl Wanted {
    /// The longest time until a refused plan is tried again.
    pub const LAST_RETRY: Nanos = Nanos::from_secs(60);

    /// The host's setting of a knob, as far as known.
    #[must_use]
    pub fn settled(&self, target: Target, kind: KnobKind) -> Option<Knob> {
        let of = |setting: &&KnobSetting| setting.target == target && setting.knob.kind() == kind;
        self.settled.iter().find(of).map(|setting| setting.knob)
    }

    /// Sets the wanted settings: writes those that differ from the host's. A setting that is no longer wanted is not
    /// reset.
    pub fn want(&mut self, wanted: Vec<KnobSetting>, plan: &mut Plan) {
        self.retry.begun();
        let before = plan.knobs.len();
        plan.knobs.extend(wanted.iter().filter(|setting| !self.settled.contains(setting)));
        if plan.knobs.len() == before {
            self.settled = wanted;
        } else {
            self.under_way = Some((plan.number, wanted));
        }
    }

    /// Takes in the outcome of a plan; a refusal is noted.
    pub fn handle(&mut self, now: Nanos, event: &Event, plan: &mut Plan) {
        match event {
            Event::Detached(id) => self.forget(*id),
            Event::Outcome(outcome) if outcome.part == Part::Knobs => {
                let Some((_, wanted)) = self.under_way.take_if(|(number, _)| *number == outcome.plan) else { return };
                match &outcome.verdict {
                    Verdict::Applied(_) | Verdict::Pending(_) => {
                        self.settled = wanted;
                        self.retry.worked();
                    }
                    Verdict::Refused(why) => self.retry.refused(now, why, plan),
                    // A target is gone, and with it the plan: its other settings are still to be made.
                    Verdict::Vanished => self.retry.soon(now),
                }
            }
            _ => {}
        }
    }

    /// The host has forgotten the settings of a workload.
    pub fn forget(&mut self, id: WorkloadId) {
        self.settled.retain(|setting| setting.target != Target::Workload(id));
    }

    /// Is it time to state the wanted settings again?
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        self.retry.is_due(now)
    }

    /// That time.
    #[must_use]
    pub fn wake(&self) -> Wake {
        self.retry.wake()
    }
}

#[cfg(test)]
mod tests {
    use quell_model::{Outcome, Refusal};

    use super::*;

    fn weight(id: u32, weight: u32) -> KnobSetting {
        KnobSetting { target: Target::Workload(WorkloadId(id)), knob: Knob::Weight(weight) }
    }

    /// One plan with this number: its settings, and its outcome.
    fn turn(wanted: &mut Wanted, number: u64, all: &[KnobSetting], verdict: Verdict) -> Vec<KnobSetting> {
        let mut plan = Plan { number, ..Plan::default() };
        wanted.want(all.to_vec(), &mut plan);
        let outcome = Event::Outcome(Outcome { plan: number, part: Part::Knobs, verdict });
        wanted.handle(Nanos(number), &outcome, &mut Plan::default());
        plan.knobs
    }

    #[test]
    fn only_the_difference_is_written_and_only_what_was_applied_is_settled() {
        let applied = || Verdict::Applied(Nanos::ZERO);
        let refused = || Verdict::Refused(Refusal::System("EBUSY".into()));
        let mut wanted = Wanted::default();
        assert_eq!(turn(&mut wanted, 1, &[weight(0, 5), weight(1, 7)], applied()).len(), 2);
        assert_eq!(turn(&mut wanted, 2, &[weight(0, 5), weight(1, 8)], refused()), [weight(1, 8)]);
        assert_eq!(wanted.settled(Target::Workload(WorkloadId(1)), KnobKind::Weight), Some(Knob::Weight(7)));
        assert!(!wanted.is_due(Nanos::from_millis(999)) && wanted.is_due(Nanos::from_millis(1001)));
        assert_eq!(turn(&mut wanted, 3, &[weight(0, 5), weight(1, 8)], refused()), [weight(1, 8)]);
        assert!(!wanted.is_due(Nanos::from_millis(1999)) && wanted.is_due(Nanos::from_millis(2001)), "twice as long");
        assert_eq!(turn(&mut wanted, 4, &[weight(0, 5), weight(1, 8)], applied()), [weight(1, 8)]);
        assert_eq!(turn(&mut wanted, 5, &[weight(0, 5), weight(1, 8)], applied()), []);
        assert_eq!(wanted.wake(), Wake::OnEvent);
    }

    #[test]
    fn a_workload_that_came_back_has_nothing_set() {
        let mut wanted = Wanted::default();
        turn(&mut wanted, 1, &[weight(0, 5)], Verdict::Applied(Nanos::ZERO));
        wanted.handle(Nanos(2), &Event::Detached(WorkloadId(0)), &mut Plan::default());
        assert_eq!(turn(&mut wanted, 2, &[weight(0, 5)], Verdict::Applied(Nanos::ZERO)), [weight(0, 5)]);
    }
}
