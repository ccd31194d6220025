//! Decisions as they leave the loop: plain data, not yet text.

use std::borrow::Cow;
use std::sync::Arc;

use quell_model::view::at;
use quell_model::{
    Event, GrantCommand, HostDomain, KnobSetting, LeaseRequest, Nanos, NoteKind, Outcome, Part, Policy, Rule, Sample,
    Target, Trial, Verdict, View, Workload, WorkloadId,
};

use crate::stack::Layer;

/// One decision of a policy, or its outcome.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Time, on the view's clock.
    pub at: Nanos,
    /// The policy that decided.
    pub policy: &'static str,
    /// The plan that it belongs to.
    pub plan: u64,
    /// The workload that it concerns; None: the machine, or more than one.
    pub about: Option<Arc<Workload>>,
    /// The decision.
    pub what: What,
    /// The host's immediate answer; None: none yet, or none expected.
    pub fate: Option<Verdict>,
    /// Observations of the workload at that moment.
    pub seen: Seen,
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A remark of the policy.
    Note(NoteKind, Cow<'static, str>),
    /// A knob to set.
    Knob(KnobSetting),
    /// A CPU granted or revoked.
    Grant(GrantCommand),
    /// A rule.
    Rule(Rule),
    /// A solo run to begin or end.
    Lease(LeaseRequest),
    /// Outcome of a plan's knobs, or refusal of another command.
    Outcome(Part, Verdict),
    /// A trial of a knob, at its beginning or its end.
    Trial(Tried),
}

/// A trial, with the workloads that it names.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The trial.
    pub trial: Trial,
    /// The workload that the contention comes from.
    pub aggressor: Option<Arc<Workload>>,
    /// The workload on which the knob is turned.
    pub on: Option<Arc<Workload>>,
}

/// The signals of a workload at one moment; absent where not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Waiting time of the oldest waiting item.
    pub queueing_delay: Sample<Nanos>,
    /// CPU time used since it attached.
    pub run_time: Sample<Nanos>,
    /// Time its threads were runnable without running, since it attached.
    pub run_delay: Sample<Nanos>,
    /// Number of threads.
    pub threads: Sample<u32>,
    /// The SLO's quantile of latency.
    pub latency: Sample<Nanos>,
}

impl Seen {
    fn of(view: &View, id: WorkloadId) -> Seen {
        let (columns, slot) = (&view.workloads, id.index());
        Seen {
            queueing_delay: at(&columns.queueing_delay, slot),
            run_time: at(&columns.run_time, slot),
            run_delay: at(&columns.run_delay, slot),
            threads: at(&columns.thread_count, slot),
            latency: at(&columns.latency, slot),
        }
    }
}

/// Passes on a layer's decisions of its last step with the host's answers, and later outcomes of its earlier decisions.
/// The first `answered` of its events were passed on with their decisions.
pub(super) fn each(view: &View, layer: &Layer, answered: usize, mut hand_over: impl FnMut(Decision)) {
    let policy = Policy::<HostDomain>::describe(&layer.policy).name;
    let mut decided = |plan, about: Option<WorkloadId>, what, fate| {
        let spec = about.and_then(|id| view.workloads.spec.get(id.index())?.clone());
        let seen = about.map_or(Seen::default(), |id| Seen::of(view, id));
        hand_over(Decision { at: view.now, policy, plan, about: spec, what, fate, seen });
    };
    for Outcome { plan, part, verdict } in layer.events.iter().skip(answered).filter_map(outcome) {
        if *part == Part::Knobs || !matches!(verdict, Verdict::Applied(_)) {
            decided(*plan, None, What::Outcome(*part, verdict.clone()), None);
        }
    }
    let plan = &layer.plan;
    let fate = |part| {
        let answers = layer.outcomes.iter().filter_map(outcome);
        let mut own = answers.filter(|answer| answer.plan == plan.number && answer.part == part);
        own.next().map(|answer| answer.verdict.clone())
    };
    let spec = |id: Option<WorkloadId>| id.and_then(|id| view.workloads.spec.get(id.index())?.clone());
    for &trial in &plan.trials {
        let tried = Tried { trial, aggressor: spec(trial.aggressor), on: spec(trial.on) };
        decided(plan.number, Some(trial.victim), What::Trial(tried), None);
    }
    for note in &plan.notes {
        decided(plan.number, note.about, What::Note(note.kind, note.text.clone()), None);
    }
    let of_knobs = fate(Part::Knobs);
    for setting in &plan.knobs {
        decided(plan.number, owner(view, setting.target), What::Knob(*setting), of_knobs.clone());
    }
    for (&command, at) in plan.grants.iter().zip(0..) {
        let about = match command {
            GrantCommand::Grant(_, to) => Some(to),
            GrantCommand::Revoke(cpu) => view.cpus.holder.get(cpu.index()).copied().flatten(),
        };
        decided(plan.number, about, What::Grant(command), fate(Part::Grant(at)));
    }
    for (&rule, at) in plan.rules.iter().zip(0..) {
        let (_, about, cpu) = rule.key();
        let holder = cpu.and_then(|cpu| view.cpus.holder.get(cpu.index()).copied().flatten());
        decided(plan.number, about.or(holder), What::Rule(rule), fate(Part::Rule(at)));
    }
    for at in 0..plan.samples.len() as u32 {
        if let Some(refused @ Verdict::Refused(_)) = fate(Part::Sample(at)) {
            decided(plan.number, None, What::Outcome(Part::Sample(at), refused), None);
        }
    }
    for (&lease, at) in plan.leases.iter().zip(0..) {
        let about = match lease {
            LeaseRequest::Begin(lease) => lease.only.unwrap_or(lease.solo),
            LeaseRequest::End(who) | LeaseRequest::Pass { to: who, .. } => who,
        };
        decided(plan.number, Some(about), What::Lease(lease), fate(Part::Lease(at)));
    }
}

fn outcome(event: &Event) -> Option<&Outcome> {
    match event {
        Event::Outcome(outcome) => Some(outcome),
        _ => None,
    }
}

/// The workload that a knob is set on.
fn owner(view: &View, target: Target) -> Option<WorkloadId> {
    match target {
        Target::Workload(id) => Some(id),
        Target::Thread(thread) => {
            let index = view.threads.id.iter().position(|&id| id == thread)?;
            view.threads.workload.get(index).copied()
        }
        Target::Cpu(cpu) => view.cpus.holder.get(cpu.index()).copied().flatten(),
        Target::Machine => None,
    }
}
