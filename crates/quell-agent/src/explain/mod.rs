//! The last decisions of each workload, in words, with the observations behind them.

use std::collections::{BTreeMap, VecDeque};

use quell_model::{Knob, KnobSetting, Nanos, Part, Sample, Target, Verdict};
use quell_policy::guard::{DEMOTED, Guard};

use crate::watch::{Decision, Seen, What};
use crate::wire;

mod trial;
mod words;

pub use words::{knob_set, knob_text};

/// Decisions kept of one workload.
pub const KEPT: usize = 32;
/// Workloads whose decisions are kept, those that are gone included.
pub const WORKLOADS: usize = 2048;
/// Decisions kept of the machine as a whole.
const RECENT: usize = 64;

/// The last decisions: of each workload, and of the machine.
#[derive(Debug, Default)]
pub struct Explanations {
    of: BTreeMap<String, Ring>,
    recent: VecDeque<wire::Decision>,
    in_force: InForce,
    demotions: BTreeMap<String, Demotions>,
    /// Workloads whose last settings were refused, and why.
    refused: BTreeMap<String, String>,
}

/// Demotions of a workload.
#[derive(Debug, Default)]
struct Demotions {
    count: u64,
    /// Times of the last ones, oldest first.
    last: VecDeque<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    decisions: VecDeque<wire::Decision>,
    /// Observations at the decision before.
    before: Seen,
}

impl Explanations {
    /// Takes one more decision in.
    pub fn add(&mut self, decision: Decision) {
        let concerned = self.in_force.note(&decision);
        self.note_refusal(&decision, &concerned);
        let Some((kind, text)) = words::of(&decision) else { return };
        if let (Some(workload), true) = (&decision.about, is_demotion(&decision)) {
            let of = self.demotions.entry(workload.name.clone()).or_default();
            of.count += 1;
            if of.last.len() == KEPT {
                of.last.pop_front();
            }
            of.last.push_back(decision.at.0);
        }
        let about = decision.about.as_ref().map_or(concerned, |workload| vec![workload.name.clone()]);
        let explained = wire::Decision {
            at_ns: decision.at.0,
            times: 1,
            since_ns: decision.at.0,
            policy: decision.policy.to_owned(),
            plan: decision.plan,
            workload: None,
            kind,
            text,
            observed: wire::Observed::default(),
            trial: trial::explained(&decision),
        };
        if about.is_empty() {
            push(&mut self.recent, explained, RECENT);
            return;
        }
        for name in about {
            if !self.of.contains_key(&name) && self.of.len() >= WORKLOADS {
                self.forget_the_quietest();
            }
            let ring = self.of.entry(name.clone()).or_default();
            let seen = observed(&ring.before, &decision.seen);
            if decision.seen.run_time.at > ring.before.run_time.at {
                ring.before = decision.seen;
            }
            let explained = wire::Decision { workload: Some(name), observed: seen, ..explained.clone() };
            push(&mut ring.decisions, explained.clone(), KEPT);
            push(&mut self.recent, explained, RECENT);
        }
    }

    fn forget_the_quietest(&mut self) {
        let last = |ring: &Ring| ring.decisions.back().map_or(0, |decision| decision.at_ns);
        let quietest = self.of.iter().min_by_key(|(_, ring)| last(ring)).map(|(name, _)| name.clone());
        if let Some(name) = quietest {
            self.of.remove(&name);
            self.demotions.remove(&name);
            self.refused.remove(&name);
        }
    }

    /// A workload's last decisions, newest first; None: there was none.
    #[must_use]
    pub fn of(&self, workload: &str) -> Option<Vec<wire::Decision>> {
        Some(self.of.get(workload)?.decisions.iter().rev().cloned().collect())
    }

    /// The last decisions of all, newest first.
    pub fn recent(&self) -> impl Iterator<Item = &wire::Decision> {
        self.recent.iter().rev()
    }

    /// The knobs that the host took, of one workload.
    pub fn knobs(&self, workload: &str) -> impl Iterator<Item = &Knob> {
        self.in_force.of.get(workload).into_iter().flatten()
    }

    /// Number of demotions of a workload or one of its threads.
    #[must_use]
    pub fn demotions(&self, workload: &str) -> u64 {
        self.demotions.get(workload).map_or(0, |of| of.count)
    }

    /// Number of those since a time, at most [`KEPT`].
    #[must_use]
    pub fn demotions_since(&self, workload: &str, time: Nanos) -> u64 {
        self.demotions.get(workload).map_or(0, |of| of.last.iter().filter(|at| **at >= time.0).count() as u64)
    }

    /// Why the last settings of a workload were refused; None: they were taken.
    #[must_use]
    pub fn refusal(&self, workload: &str) -> Option<&str> {
        self.refused.get(workload).map(String::as_str)
    }

    /// The workloads whose last settings were refused, and why.
    pub fn refused(&self) -> impl Iterator<Item = (&str, &str)> {
        self.refused.iter().map(|(name, why)| (name.as_str(), why.as_str()))
    }

    /// Knobs that were refused are remembered until the host takes some.
    fn note_refusal(&mut self, decision: &Decision, concerned: &[String]) {
        let (names, verdict) = match (&decision.what, &decision.fate, &decision.about) {
            (What::Knob(_), Some(verdict), Some(workload)) => (std::slice::from_ref(&workload.name), verdict),
            (What::Outcome(Part::Knobs, verdict), ..) => (concerned, verdict),
            _ => return,
        };
        for name in names {
            match verdict {
                Verdict::Refused(why) => _ = self.refused.insert(name.clone(), why.to_string()),
                Verdict::Applied(_) => _ = self.refused.remove(name),
                Verdict::Pending(_) | Verdict::Vanished => {}
            }
        }
    }

    /// Are knobs kept of more workloads than there are?
    #[must_use]
    pub fn knobs_outnumber(&self, workloads: usize) -> bool {
        self.in_force.of.len() > workloads
    }

    /// Forgets the knobs of workloads that are gone: their restoring is not a policy's decision.
    pub fn keep_knobs(&mut self, attached: impl Fn(&str) -> bool) {
        self.in_force.of.retain(|name, _| attached(name));
        self.refused.retain(|name, _| attached(name));
    }
}

fn is_demotion(decision: &Decision) -> bool {
    matches!(&decision.what, What::Note(_, text) if decision.policy == Guard::DESCRIPTION.name && text.ends_with(DEMOTED))
}

/// Equal decisions in a row count as one. Of a full ring the oldest knob goes while more than half of it are knobs: policies that
/// set something of each thread once a period would leave none of their reasons.
fn push(ring: &mut VecDeque<wire::Decision>, explained: wire::Decision, kept: usize) {
    if let Some(last) = ring.back_mut().filter(|last| last.trial.is_none() && explained.trial.is_none())
        && (&last.policy, &last.workload, last.kind, &last.text)
            == (&explained.policy, &explained.workload, explained.kind, &explained.text)
    {
        let (times, since_ns) = (last.times + 1, last.since_ns);
        *last = wire::Decision { times, since_ns, ..explained };
        return;
    }
    if ring.len() == kept {
        let is_knob = |decision: &wire::Decision| decision.kind == wire::DecisionKind::Knob;
        let crowded = ring.iter().filter(|decision| is_knob(decision)).count() > kept / 2;
        let oldest = if crowded { ring.iter().position(is_knob) } else { None };
        ring.remove(oldest.unwrap_or(0));
    }
    ring.push_back(explained);
}

/// Whole-workload knobs that hosts have taken, by the outcomes of the plans that set them.
#[derive(Debug, Default)]
struct InForce {
    of: BTreeMap<String, Vec<Knob>>,
    /// Knobs whose outcome has not arrived, oldest first.
    waiting: VecDeque<(&'static str, u64, String, Option<Knob>)>,
}

/// Knobs that wait for their outcome at most.
const WAITING: usize = 4096;

impl InForce {
    /// Takes a decision in. Returns the workloads that it concerns without naming them.
    fn note(&mut self, decision: &Decision) -> Vec<String> {
        let mut concerned = Vec::new();
        match &decision.what {
            What::Knob(KnobSetting { target, knob }) => {
                let Some(workload) = &decision.about else { return concerned };
                let whole = matches!(target, Target::Workload(_)).then_some(*knob);
                match (&decision.fate, whole) {
                    (Some(Verdict::Applied(_)), Some(knob)) => take(&mut self.of, &workload.name, knob),
                    (None | Some(Verdict::Pending(_)), whole) => {
                        if self.waiting.len() == WAITING {
                            self.waiting.pop_front();
                        }
                        self.waiting.push_back((decision.policy, decision.plan, workload.name.clone(), whole));
                    }
                    _ => {}
                }
            }
            What::Outcome(Part::Knobs, Verdict::Pending(_)) => {}
            What::Outcome(Part::Knobs, verdict) => {
                let applied = matches!(verdict, Verdict::Applied(_));
                let of = &mut self.of;
                self.waiting.retain(|(policy, plan, name, knob)| {
                    if *policy != decision.policy || *plan != decision.plan {
                        return true;
                    }
                    if !concerned.contains(name) {
                        concerned.push(name.clone());
                    }
                    if let (true, Some(knob)) = (applied, knob) {
                        take(of, name, *knob);
                    }
                    false
                });
            }
            _ => {}
        }
        concerned
    }
}

/// A knob is in force from now on, in place of the one of its kind.
fn take(of: &mut BTreeMap<String, Vec<Knob>>, name: &str, knob: Knob) {
    let knobs = of.entry(name.to_owned()).or_default();
    match knobs.iter_mut().find(|known| known.kind() == knob.kind()) {
        Some(known) => *known = knob,
        None => knobs.push(knob),
    }
}

/// Observations, with counters turned into rates over the time since the decision before.
fn observed(before: &Seen, seen: &Seen) -> wire::Observed {
    wire::Observed {
        queueing_delay_ns: seen.queueing_delay.usable().map(|delay| delay.0),
        latency_ns: seen.latency.usable().map(|latency| latency.0),
        cpus_used: per_time(&before.run_time, &seen.run_time),
        threads_waiting: per_time(&before.run_delay, &seen.run_delay),
        threads: seen.threads.usable(),
    }
}

/// Growth of a counter of nanoseconds per nanosecond between two readings; None without two usable ones.
#[must_use]
pub fn per_time(before: &Sample<Nanos>, now: &Sample<Nanos>) -> Option<f64> {
    let (first, last) = (before.usable()?, now.usable()?);
    let span = now.at - before.at;
    (span > Nanos::ZERO && last >= first).then(|| (last - first).0 as f64 / span.0 as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::DecisionKind;
    use quell_model::{Class, CpuCount, CpuSet, NoteKind, Refusal, Rule, SchedClass, Workload, WorkloadId};
    use std::sync::Arc;

    fn decision(about: &str, at: u64, plan: u64, what: What) -> Decision {
        let about = Some(Arc::new(Workload::new(about, Class::LatencyCritical, CpuCount::whole(1))));
        Decision { at: Nanos(at), policy: "p", plan, about, what, fate: None, seen: Seen::default() }
    }

    fn knob(about: &str, plan: u64, knob: Knob) -> Decision {
        decision(about, plan, plan, What::Knob(KnobSetting { target: Target::Workload(WorkloadId(0)), knob }))
    }

    fn outcome(plan: u64, verdict: Verdict) -> Decision {
        Decision { about: None, ..decision("", plan, plan, What::Outcome(Part::Knobs, verdict)) }
    }

    #[test]
    fn equal_decisions_count_as_one_and_old_ones_are_forgotten() {
        let mut explained = Explanations::default();
        for at in 0..5 {
            explained.add(decision("a", at, at, What::Note(NoteKind::Because, "busy".into())));
        }
        let of = explained.of("a").unwrap();
        assert_eq!((of.len(), of[0].times, of[0].since_ns, of[0].at_ns), (1, 5, 0, 4));
        for at in 0..100 {
            explained.add(decision("a", at, at, What::Note(NoteKind::Because, at.to_string().into())));
        }
        let of = explained.of("a").unwrap();
        assert_eq!((of.len(), of[0].text.as_str()), (KEPT, "99"));
        assert_eq!(explained.of("b"), None);
    }

    #[test]
    fn knobs_of_many_threads_do_not_crowd_out_the_reason() {
        let mut explained = Explanations::default();
        explained.add(decision("a", 0, 0, What::Note(NoteKind::Because, "thread 7 is critical".into())));
        for plan in 1..100 {
            for tid in 0..16 {
                let target = Target::Thread(quell_model::ThreadId { tid, start: 1 });
                let knob = Knob::Weight(100 + (plan as u32 + tid as u32) % 9);
                explained.add(decision("a", plan, plan, What::Knob(KnobSetting { target, knob })));
            }
        }
        let reason = |explained: &Explanations| {
            explained.of("a").unwrap().into_iter().find(|of| of.kind == DecisionKind::Reason)
        };
        assert_eq!(reason(&explained).unwrap().since_ns, 0);
        assert_eq!(explained.of("a").unwrap().len(), KEPT);
        assert!(explained.recent().any(|of| of.text == "thread 7 is critical"));
    }

    #[test]
    fn a_knob_is_in_force_when_the_host_took_it() {
        let mut explained = Explanations::default();
        let cpus = Knob::Cpus(CpuSet::first(2));
        let knobs = |explained: &Explanations| explained.knobs("a").copied().collect::<Vec<_>>();
        explained.add(knob("a", 1, cpus));
        assert_eq!(knobs(&explained), []);
        explained.add(outcome(1, Verdict::Pending(Nanos(9))));
        assert_eq!(knobs(&explained), []);
        explained.add(outcome(1, Verdict::Applied(Nanos(9))));
        assert_eq!(knobs(&explained), [cpus]);
        explained.add(knob("a", 2, Knob::Cpus(CpuSet::EMPTY)));
        explained.add(outcome(2, Verdict::Refused(Refusal::System("EPERM".into()))));
        assert_eq!(knobs(&explained), [cpus]);
        let newest = &explained.of("a").unwrap()[0];
        assert!(newest.kind == DecisionKind::Refused && newest.text.contains("EPERM"), "{newest:?}");
        assert!(explained.refusal("a").unwrap().contains("EPERM"));
        explained.add(knob("a", 3, cpus));
        explained.add(outcome(3, Verdict::Applied(Nanos(9))));
        assert_eq!(explained.refusal("a"), None);
        explained.keep_knobs(|name| name == "b");
        assert_eq!(knobs(&explained), []);
    }

    #[test]
    fn what_the_host_refused_is_told_as_refused_with_its_reason_and_never_as_in_force() {
        let mut explained = Explanations::default();
        let why = || Some(Verdict::Refused(Refusal::Unsupported("no rules".into())));
        let limit = What::Rule(Rule::Limit { workload: WorkloadId(0), cpus: 2 });
        for plan in 1..4 {
            explained.add(Decision { fate: why(), ..decision("a", plan, plan, limit.clone()) });
        }
        explained.add(Decision { fate: why(), ..knob("b", 4, Knob::IdleOnly(true)) });
        let [limit, idle] = ["a", "b"].map(|name| explained.of(name).unwrap().remove(0));
        assert_eq!((limit.kind, limit.times), (DecisionKind::Refused, 3));
        assert_eq!(limit.text, "at most 2 CPUs: refused: this host cannot do it: no rules");
        assert_eq!(idle.kind, DecisionKind::Refused);
        assert_eq!(explained.knobs("b").count(), 0);
        explained.add(Decision { fate: Some(Verdict::Applied(Nanos(5))), ..knob("b", 5, Knob::IdleOnly(true)) });
        assert_eq!(explained.knobs("b").count(), 1);
    }

    #[test]
    fn no_limit_is_said_in_words() {
        let mut explained = Explanations::default();
        let workload = WorkloadId(0);
        for rule in [Rule::Limit { workload, cpus: u32::MAX }, Rule::Burst { workload, cpus: u32::MAX }] {
            explained.add(decision("a", 1, 1, What::Rule(rule)));
        }
        let texts: Vec<String> = explained.of("a").unwrap().into_iter().map(|decision| decision.text).collect();
        assert_eq!(texts[1], "no limit on its CPUs");
        assert!(texts.iter().all(|text| !text.contains(&u32::MAX.to_string())), "{texts:?}");
    }

    #[test]
    fn the_guards_demotions_are_counted() {
        let mut explained = Explanations::default();
        for text in ["thread 7 ran 50 ms without a pause: demoted", "thread 7 pauses again: promoted"] {
            let what = What::Note(NoteKind::Because, text.into());
            explained.add(Decision { policy: "guard", ..decision("a", 1, 1, what) });
        }
        assert_eq!((explained.demotions("a"), explained.demotions("b")), (1, 0));
        assert_eq!((explained.demotions_since("a", Nanos(1)), explained.demotions_since("a", Nanos(2))), (1, 0));
    }

    #[test]
    fn a_thread_knob_is_explained_and_not_taken_for_the_workload() {
        let mut explained = Explanations::default();
        let target = Target::Thread(quell_model::ThreadId { tid: 7, start: 1 });
        let setting = KnobSetting { target, knob: Knob::Class(SchedClass::NORMAL) };
        explained.add(decision("a", 1, 1, What::Knob(setting)));
        explained.add(outcome(1, Verdict::Applied(Nanos(1))));
        assert_eq!(explained.knobs("a").count(), 0);
        assert_eq!(explained.of("a").unwrap()[0].text, "thread 7: SCHED_OTHER nice 0");
    }

    #[test]
    fn workloads_that_come_and_go_take_no_memory_without_bound() {
        let mut explained = Explanations::default();
        for number in 0..WORKLOADS as u64 + 10 {
            explained.add(decision(&number.to_string(), number, 1, What::Note(NoteKind::Because, "x".into())));
        }
        assert_eq!(explained.of.len(), WORKLOADS);
        assert!(explained.of("0").is_none() && explained.of("20").is_some());
    }

    #[test]
    fn counters_become_rates() {
        let sample = |value, at| Sample::exact(Nanos(value), Nanos(at));
        assert_eq!(per_time(&sample(100, 0), &sample(600, 1000)), Some(0.5));
        assert_eq!(per_time(&sample(100, 0), &sample(600, 0)), None);
        assert_eq!(per_time(&Sample::default(), &sample(600, 1000)), None);
        assert_eq!(per_time(&sample(700, 0), &sample(600, 1000)), None, "another workload took the slot");
    }
}
