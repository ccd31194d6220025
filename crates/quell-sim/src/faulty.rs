//! Failures, from a seed, on any host: commands refused or late, looks that fail, workloads that vanish.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use quell_model::{
    Capabilities, Event, GrantCommand, Host, KnobKind, KnobSetting, Nanos, Outcome, Part, Plan, Refusal, SignalSet,
    Support, Verdict, View, Wake,
};
use thiserror::Error;

use crate::Stream;

/// Failures have a stream that nothing else has.
const STREAM: u64 = 4 << 32;

/// What goes wrong, and how often. Nothing, until the fields say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Chance (0–1) that a plan's knobs are refused.
    pub knobs_refused: f64,
    /// Chance that a grant or revocation is refused.
    pub grants_refused: f64,
    /// Chance that a rule, sample request or lease is refused.
    pub others_refused: f64,
    /// Chance that a look fails.
    pub looks_failed: f64,
    /// Chance that a workload vanishes before a look, if the host can lose one ([`Faulty::losing`]).
    pub vanishing: f64,
    /// A knob that the host has not.
    pub without: Option<KnobKind>,
    /// Grants and revocations are carried out this long after the look. Until then they are pending.
    pub grants_late: Nanos,
}

/// Why a call failed.
#[derive(Debug, Error)]
pub enum Failure<E> {
    /// It was to fail.
    #[error("an injected failure")]
    Injected,
    /// The host's own error.
    #[error(transparent)]
    Host(E),
}

/// A host on which things go wrong. The same seed gives the same failures.
#[derive(Clone, Debug)]
pub struct Faulty<H> {
    /// What goes wrong.
    pub faults: Faults,
    host: H,
    dice: Stream,
    lose: Option<fn(&mut H, u32)>,
    /// The time of the last look.
    seen: Nanos,
    /// Grants and revocations on their way, the first first, and when they are carried out.
    on_the_way: Vec<(Nanos, GrantCommand)>,
    /// The clock while something is on its way.
    clock: Option<View>,
    /// What happened while the time was asked for.
    happened: Vec<Event>,
    /// What gets through of a plan.
    passed: Plan,
    outcomes: Vec<Event>,
}

impl<H> Faulty<H> {
    /// This host, on which nothing goes wrong yet.
    #[must_use]
    pub fn new(host: H, seed: u64) -> Faulty<H> {
        Faulty {
            faults: Faults::default(),
            host,
            dice: Stream::new(seed, STREAM),
            lose: None,
            seen: Nanos::ZERO,
            on_the_way: Vec::new(),
            clock: None,
            happened: Vec::new(),
            passed: Plan::default(),
            outcomes: Vec::new(),
        }
    }

    /// The same, which loses workloads like that: `lose` is given a random number to choose one by.
    #[must_use]
    pub fn losing(self, lose: fn(&mut H, u32)) -> Faulty<H> {
        Faulty { lose: Some(lose), ..self }
    }

    fn strikes(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.dice.unit() <= chance
    }

    fn refused(&mut self, chance: f64) -> Option<Verdict> {
        let refused = || Verdict::Refused(Refusal::System("an injected failure".into()));
        self.strikes(chance).then(refused)
    }

    fn knobs_fail(&mut self, knobs: &[KnobSetting]) -> Option<Verdict> {
        let lacks = |setting: &&KnobSetting| self.faults.without == Some(setting.knob.kind());
        if let Some(setting) = knobs.iter().find(lacks) {
            return Some(Verdict::Refused(Refusal::Unsupported(setting.knob.kind().name().into())));
        }
        self.refused(self.faults.knobs_refused)
    }

    fn grant_fails(&mut self, grant: GrantCommand) -> Option<Verdict> {
        let verdict = self.refused(self.faults.grants_refused);
        if verdict.is_some() || self.faults.grants_late == Nanos::ZERO {
            return verdict;
        }
        let at = self.seen + self.faults.grants_late;
        self.on_the_way.push((at, grant));
        Some(Verdict::Pending(at))
    }

    /// Leaves in `passed` what gets through of a plan. Returns the place in it of each command there, and what became of
    /// the others.
    fn sift(&mut self, plan: &Plan) -> (Vec<Part>, Vec<Outcome>) {
        self.passed.begin(plan.number);
        self.passed.leaves = plan.leaves;
        let (mut places, mut failed) = (Vec::new(), Vec::new());
        let mut reported = |part, verdict: Option<Verdict>| {
            let passes = verdict.is_none();
            match verdict {
                None => places.push(part),
                Some(verdict) => failed.push(Outcome { plan: plan.number, part, verdict }),
            }
            passes
        };
        let others = self.faults.others_refused;
        // All or none: one that is refused sinks the others.
        let knobs = if plan.knobs.is_empty() { None } else { self.knobs_fail(&plan.knobs) };
        let of_rules = plan.rules.iter().fold(None, |sunk, _| self.refused(others).or(sunk));
        let sunk = knobs.or(of_rules);
        if !plan.knobs.is_empty() && reported(Part::Knobs, sunk.clone()) {
            self.passed.knobs.extend_from_slice(&plan.knobs);
        }
        for (at, &rule) in (0..).zip(&plan.rules) {
            if reported(Part::Rule(at), sunk.clone()) {
                self.passed.rules.push(rule);
            }
        }
        for (at, &grant) in (0..).zip(&plan.grants) {
            if reported(Part::Grant(at), self.grant_fails(grant)) {
                self.passed.grants.push(grant);
            }
        }
        for (at, &sample) in (0..).zip(&plan.samples) {
            if reported(Part::Sample(at), self.refused(others)) {
                self.passed.samples.push(sample);
            }
        }
        for (at, &lease) in (0..).zip(&plan.leases) {
            if reported(Part::Lease(at), self.refused(others)) {
                self.passed.leases.push(lease);
            }
        }
        (places, failed)
    }
}

impl<H: Host> Faulty<H> {
    /// Carries out what is due of what was on its way. What becomes of it is not reported any more.
    fn carry_out_late(&mut self) -> Result<(), H::Error> {
        let Some(view) = &mut self.clock else { return Ok(()) };
        self.host.observe(SignalSet::default(), view, &mut self.happened)?;
        let due = self.on_the_way.partition_point(|&(at, _)| at <= view.now);
        let grants: Vec<GrantCommand> = self.on_the_way.drain(..due).map(|(_, grant)| grant).collect();
        if grants.is_empty() {
            return Ok(());
        }
        self.host.apply(&Plan { grants, ..Plan::default() }, &mut Vec::new())
    }
}

/// What becomes of a command, in the order of the contract.
fn place(part: Part) -> (u8, u32) {
    match part {
        Part::Knobs => (0, 0),
        Part::Rule(at) => (1, at),
        Part::Grant(at) => (2, at),
        Part::Sample(at) => (3, at),
        Part::Lease(at) => (4, at),
    }
}

impl<H: Host> Host for Faulty<H> {
    type Error = Failure<H::Error>;

    fn capabilities(&self) -> Capabilities {
        let mut has = self.host.capabilities();
        if let Some(knob) = self.faults.without {
            let (why, fix) = ("it was taken away".to_owned(), "none: it is a test's".to_owned());
            has.knobs.insert(knob, Support::No { why, fix });
        }
        has
    }

    fn observe(&mut self, wanted: SignalSet, view: &mut View, events: &mut Vec<Event>) -> Result<(), Self::Error> {
        if self.strikes(self.faults.looks_failed) {
            return Err(Failure::Injected);
        }
        if self.strikes(self.faults.vanishing)
            && let Some(lose) = self.lose
        {
            lose(&mut self.host, self.dice.below(u32::MAX));
        }
        events.append(&mut self.happened);
        self.host.observe(wanted, view, events).map_err(Failure::Host)?;
        self.seen = view.now;
        if self.faults.grants_late > Nanos::ZERO && self.clock.is_none() {
            self.clock = Some(View::new(Arc::clone(&view.topology)));
        }
        Ok(())
    }

    fn apply(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), Self::Error> {
        let (places, failed) = self.sift(plan);
        self.outcomes.clear();
        self.host.apply(&self.passed, &mut self.outcomes).map_err(Failure::Host)?;
        let in_plan = |part: Part| {
            let of_kind = places.iter().filter(|other| place(**other).0 == place(part).0);
            of_kind.copied().nth(place(part).1 as usize).unwrap_or(part)
        };
        let mut outcomes = failed;
        for event in self.outcomes.drain(..) {
            match event {
                Event::Outcome(outcome) => outcomes.push(Outcome { part: in_plan(outcome.part), ..outcome }),
                other => events.push(other),
            }
        }
        outcomes.sort_by_key(|outcome| place(outcome.part));
        events.extend(outcomes.into_iter().map(Event::Outcome));
        Ok(())
    }

    fn wait(&mut self, until: Wake) -> Result<(), Self::Error> {
        let Some(&(late, _)) = self.on_the_way.first() else { return self.host.wait(until).map_err(Failure::Host) };
        self.host.wait(until.sooner(Wake::At(late))).map_err(Failure::Host)?;
        self.carry_out_late().map_err(Failure::Host)
    }
}

impl<H> Deref for Faulty<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.host
    }
}

impl<H> DerefMut for Faulty<H> {
    fn deref_mut(&mut self) -> &mut H {
        &mut self.host
    }
}
