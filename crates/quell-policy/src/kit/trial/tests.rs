//! A toy: a knob of some strengths, and a victim whose contention follows from it.

use quell_model::trial::{KnownBy, Resource};
use quell_model::{KnobKind, Quality, Topology, View, WorkloadId};

use super::*;

const LOOK: Nanos = Nanos::from_millis(200);
const WAYS: Attempt = Attempt { technique: 0, resource: Resource::Llc, victim: WorkloadId(0) };

impl Setting for u32 {
    fn level(&self, _: &Trial) -> Option<u32> {
        Some(*self)
    }
}

struct Toy {
    trials: Trials<u32>,
    gauge: Gauge,
    now: Nanos,
    strength: u32,
    reported: Vec<Trial>,
    /// Its requests a second.
    load: f64,
}

impl Toy {
    fn new() -> Toy {
        let (trials, gauge) = (Trials::default(), Gauge::default());
        Toy { trials, gauge, now: LOOK, strength: 0, reported: Vec::new(), load: 100.0 }
    }

    fn turn_to(&mut self, strength: u32) {
        self.strength = strength;
        self.gauge.begin(self.now);
    }

    /// This many looks at a victim whose contention follows from the knob.
    fn looks(&mut self, count: u32, contention: impl Fn(u32) -> f64) {
        for _ in 0..count {
            self.now += LOOK;
            let mut view = View::new(Topology::synthetic(1, 1, 1, 1).into());
            view.now = self.now;
            view.workloads.request_rate = vec![quell_model::Sample::over(self.load, self.now, LOOK)];
            self.gauge.read(
                &view,
                WorkloadId(0),
                Some(-contention(self.strength)),
                Some(10.0 - f64::from(self.strength)),
            );
            let mut plan = Plan::default();
            if self.trials.look(&self.gauge, self.now, &mut plan) {
                let strength = *self.trials.set(self.now);
                self.turn_to(strength);
            }
            self.reported.extend(plan.trials);
        }
    }

    /// A search up to a strength, from what is in force.
    fn search(&mut self, to: u32, releases: bool) {
        let trial = Trial {
            number: 0,
            victim: WorkloadId(0),
            by_latency: false,
            resource: Resource::Llc,
            contention: -0.5,
            quality: Quality::Exact,
            aggressor: None,
            known_by: KnownBy::Beside,
            knob: KnobKind::CacheWays,
            on: None,
            from: None,
            to: None,
            expected: -0.5,
            settling_ms: 3,
            judge: Judge::default(),
            before: Windows::default(),
            after: Windows::default(),
            cost: None,
            finding: Finding::Begun,
            then: Then::Going,
        };
        let mut at = self.strength;
        while at != to {
            let next = if to > at { at + 1 } else { at - 1 };
            match self.trials.running() {
                None => self.trials.begin(WAYS, trial, releases, &self.gauge, (&at, &next), self.now),
                Some(_) => self.trials.stepped(&next, self.now),
            }
            at = next;
        }
        self.turn_to(to);
        self.trials.search_ended(self.now);
    }

    fn verdict(&self) -> (Finding, Then, Option<u32>) {
        let last = self.reported.last().unwrap();
        (last.finding, last.then, last.to)
    }
}

/// Every strength from 3 on takes the contention away.
fn from_three(strength: u32) -> f64 {
    if strength >= 3 { 0.1 } else { 0.5 }
}

#[test]
fn what_helps_is_kept_at_its_weakest_step() {
    let mut toy = Toy::new();
    toy.looks(5, from_three);
    toy.search(8, false);
    toy.looks(40, from_three);
    assert_eq!(toy.verdict(), (Finding::Helped, Then::Kept, Some(3)));
    assert_eq!((toy.strength, toy.trials.running()), (3, None));
    let reported = toy.reported.last().unwrap();
    assert!(
        (reported.effect().unwrap() + 0.4).abs() < 1e-3 && reported.before.count >= 3 && reported.after.count >= 3,
        "{reported:?}"
    );
    assert!((reported.cost.unwrap() - 0.3).abs() < 1e-3, "best-effort work is 7 in place of 10: {reported:?}");
}

#[test]
fn what_has_no_effect_is_undone_and_tried_twice_at_most() {
    let mut toy = Toy::new();
    for round in 0..2 {
        toy.looks(5, |_| 0.5);
        assert!(toy.trials.may(&WAYS, false), "round {round}");
        toy.search(4, false);
        toy.looks(20, |_| 0.5);
        assert_eq!(toy.verdict(), (Finding::NoEffect, Then::Undone, Some(0)));
        assert_eq!(toy.strength, 0);
    }
    assert!(!toy.trials.may(&WAYS, false) && toy.trials.may(&WAYS, true), "giving back is another matter");
}

#[test]
fn what_harms_is_undone_within_the_search() {
    let mut toy = Toy::new();
    let harm = |strength| 0.2 + 0.2 * f64::from(strength);
    toy.looks(5, harm);
    toy.search(2, false);
    // As if the policy went on searching.
    toy.trials.running.as_mut().unwrap().stage = Stage::Searching;
    toy.looks(2, harm);
    assert_eq!((toy.verdict().0, toy.verdict().1, toy.strength), (Finding::Harmed, Then::Undone, 0));
}

#[test]
fn what_a_moved_load_explains_is_tried_once_more_then_undone() {
    let mut toy = Toy::new();
    let falls = |strength: u32| if strength > 0 { 0.1 } else { 0.5 };
    toy.looks(5, falls);
    toy.search(1, false);
    toy.load = 50.0;
    toy.looks(3, falls);
    assert_eq!(toy.verdict(), (Finding::Unclear, Then::Again, Some(1)));
    assert_eq!(toy.strength, 0, "windows before, anew");
    let mut moves = toy;
    moves.looks(5, falls);
    assert_eq!(moves.strength, 1);
    moves.load = 20.0;
    moves.looks(20, falls);
    assert_eq!(moves.verdict(), (Finding::Unclear, Then::Undone, Some(0)));
}

#[test]
fn without_windows_it_is_unclear_and_undone() {
    let mut toy = Toy::new();
    toy.looks(5, |_| 0.5);
    toy.search(1, false);
    toy.looks(100, |_| f64::NAN);
    assert_eq!(toy.verdict(), (Finding::Unclear, Then::Undone, Some(0)));
    assert_eq!(toy.strength, 0);
}

#[test]
fn what_is_given_back_stays_given_back_as_far_as_it_does_no_harm() {
    let mut toy = Toy::new();
    toy.turn_to(8);
    toy.looks(5, from_three);
    toy.search(0, true);
    toy.looks(40, from_three);
    assert_eq!(toy.verdict(), (Finding::NoEffect, Then::Kept, Some(3)));
    toy.looks(5, |_| 0.5);
    toy.search(0, true);
    toy.looks(20, |_| 0.5);
    assert_eq!((toy.verdict(), toy.strength), ((Finding::NoEffect, Then::Kept, Some(0)), 0));
}

#[test]
fn a_refused_step_is_undone_down_to_the_first() {
    let mut toy = Toy::new();
    toy.looks(5, |_| 0.5);
    toy.search(3, false);
    let mut plan = Plan::default();
    assert!(toy.trials.refused(&mut plan), "two steps before it are in force");
    assert_eq!((*toy.trials.set(toy.now), plan.trials[0].finding), (0, Finding::Refused));
    toy.search(4, false);
    assert!(!toy.trials.refused(&mut plan), "the first step never was");
}
