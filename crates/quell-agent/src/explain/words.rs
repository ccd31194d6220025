//! Decisions in words.

use quell_model::{
    GrantCommand, Knob, KnobSetting, LeaseRequest, Nanos, NoteKind, Part, PreemptionMode, QueueOrder, Rule, Target,
    Verdict,
};

use crate::watch::{Decision, What};
use crate::wire::DecisionKind;

/// A decision in words, with the host's answer; None: it is of no interest to people.
pub(super) fn of(decision: &Decision) -> Option<(DecisionKind, String)> {
    let (kind, text) = wanted(&decision.what)?;
    Some(match &decision.fate {
        Some(Verdict::Refused(why)) => (DecisionKind::Refused, format!("{text}: refused: {why}")),
        Some(Verdict::Vanished) => (DecisionKind::Warning, format!("{text}: the target has ended; nothing was done")),
        None | Some(Verdict::Applied(_) | Verdict::Pending(_)) => (kind, text),
    })
}

fn wanted(what: &What) -> Option<(DecisionKind, String)> {
    Some(match what {
        What::Note(kind, text) => {
            let kind = match kind {
                NoteKind::Because => DecisionKind::Reason,
                NoteKind::Warning => DecisionKind::Warning,
                NoteKind::Refused => DecisionKind::Refused,
            };
            (kind, text.clone().into_owned())
        }
        What::Knob(KnobSetting { target, knob }) => (DecisionKind::Knob, knob_on(*target, knob)),
        What::Grant(GrantCommand::Grant(cpu, _)) => (DecisionKind::Grant, format!("CPU {cpu} granted")),
        What::Grant(GrantCommand::Revoke(cpu)) => (DecisionKind::Grant, format!("CPU {cpu} revoked")),
        What::Rule(rule) => (DecisionKind::Rule, rule_text(rule)),
        What::Lease(LeaseRequest::Begin(lease)) if lease.only.is_some() => (
            DecisionKind::Solo,
            format!("is paused for {}, to test whether others run better without it", lease.at_most),
        ),
        What::Lease(LeaseRequest::Begin(lease)) => {
            (DecisionKind::Solo, format!("runs alone for {} at most", lease.at_most))
        }
        What::Lease(LeaseRequest::Pass { .. }) => {
            (DecisionKind::Solo, "runs alone in its turn, for the rest of a solo run".to_owned())
        }
        What::Lease(LeaseRequest::End(_)) => (DecisionKind::Solo, "its solo run ends".to_owned()),
        What::Outcome(Part::Knobs, Verdict::Refused(why)) => {
            (DecisionKind::Refused, format!("the plan's knobs were refused, none was set: {why}"))
        }
        What::Outcome(part, Verdict::Refused(why)) => {
            (DecisionKind::Refused, format!("{} refused: {why}", name(*part)))
        }
        What::Outcome(part, Verdict::Vanished) => {
            (DecisionKind::Warning, format!("{}: the target has ended; nothing was done", name(*part)))
        }
        What::Outcome(_, Verdict::Applied(_) | Verdict::Pending(_)) => return None,
        What::Trial(tried) => (DecisionKind::Trial, super::trial::text(tried)),
    })
}

fn name(part: Part) -> &'static str {
    match part {
        Part::Knobs => "knobs",
        Part::Grant(_) => "grant",
        Part::Rule(_) => "rule",
        Part::Sample(_) => "sample",
        Part::Lease(_) => "solo run",
    }
}

fn knob_on(target: Target, knob: &Knob) -> String {
    match target {
        Target::Workload(_) => knob_text(knob),
        Target::Thread(thread) => format!("thread {}: {}", thread.tid, knob_text(knob)),
        Target::Cpu(cpu) => format!("CPU {cpu}: {}", knob_text(knob)),
        Target::Machine => format!("whole machine: {}", knob_text(knob)),
    }
}

/// A knob with its value, in words.
#[must_use]
pub fn knob_set(knob: &Knob) -> String {
    match knob {
        Knob::IdleOnly(true) => "idle-only".to_owned(),
        Knob::IdleOnly(false) => "no idle-only".to_owned(),
        Knob::Pause(true) => "a pause".to_owned(),
        Knob::Pause(false) => "no pause".to_owned(),
        Knob::Partition(true) => "a partition".to_owned(),
        knob => knob_text(knob),
    }
}

/// A knob with its value, in words.
#[must_use]
pub fn knob_text(knob: &Knob) -> String {
    match knob {
        Knob::Cpus(cpus) => format!("CPUs {cpus}"),
        Knob::Partition(true) => "CPUs of its own partition".to_owned(),
        Knob::Partition(false) => "no partition".to_owned(),
        Knob::Weight(weight) => format!("weight {weight}"),
        Knob::Quota(Some(cpus)) => format!("at most {cpus} CPUs"),
        Knob::Quota(None) => "no quota".to_owned(),
        Knob::IdleOnly(true) => "runs only on idle CPUs".to_owned(),
        Knob::IdleOnly(false) => "runs on busy CPUs too".to_owned(),
        Knob::WakeUpLatency(Some(latency)) => format!("wake-up latency {latency}"),
        Knob::WakeUpLatency(None) => "Linux's wake-up latency".to_owned(),
        Knob::Warp(Some(warp)) => format!("warped by {}", warp.by),
        Knob::Warp(None) => "not warped".to_owned(),
        Knob::Class(class) => class.to_string(),
        Knob::Pause(true) => "paused".to_owned(),
        Knob::Pause(false) => "goes on".to_owned(),
        Knob::CacheWays(mask) => format!("cache ways {mask:#x} ({} of them)", mask.count_ones()),
        Knob::WaysOfLlc(ways) => format!("cache ways {:#x} of LLC {}", ways.mask, ways.llc),
        Knob::Throttle(value) => format!("memory throttle {value}"),
        Knob::MemoryNodes(nodes) => format!("memory on nodes {nodes}"),
        Knob::MaxFrequencyKhz(u32::MAX) => "no limit on the frequency".to_owned(),
        Knob::MaxFrequencyKhz(khz) => format!("at most {} MHz", khz / 1000),
        Knob::GpuFrequencyKhz(u32::MAX) => "no limit on the GPU's frequency".to_owned(),
        Knob::GpuFrequencyKhz(khz) => format!("GPU at most {} MHz", khz / 1000),
        Knob::Preemption(mode) => format!(
            "preemption {}",
            match mode {
                PreemptionMode::None => "none",
                PreemptionMode::Voluntary => "voluntary",
                PreemptionMode::Full => "full",
                PreemptionMode::Lazy => "lazy",
            }
        ),
    }
}

fn rule_text(rule: &Rule) -> String {
    match *rule {
        Rule::Guaranteed { cpus: 0, .. } => "no CPUs guaranteed on wake-up".to_owned(),
        Rule::Guaranteed { cpus, .. } => format!("{} guaranteed on wake-up", whole(cpus)),
        Rule::Burst { cpus: 0, .. } => "no CPUs from best-effort work on wake-up".to_owned(),
        Rule::Burst { cpus: u32::MAX, .. } => "as many CPUs as it wants from best-effort work on wake-up".to_owned(),
        Rule::Burst { cpus, .. } => format!("up to {} from best-effort work on wake-up", whole(cpus)),
        Rule::Limit { cpus: u32::MAX, .. } => "no limit on its CPUs".to_owned(),
        Rule::Limit { cpus, .. } => format!("at most {}", whole(cpus)),
        Rule::Rank { rank, .. } => format!("place {rank} in line for a yielded CPU"),
        Rule::SiblingBan { cpu, request_start: Rule::NO_REQUEST } => format!("the siblings of CPU {cpu} run again"),
        Rule::SiblingBan { cpu, .. } => format!("the siblings of CPU {cpu} are parked until its request ends"),
        Rule::Server { cpu, budget: Nanos::ZERO, .. } => format!("deferrable server on CPU {cpu} removed"),
        Rule::Server { cpu, budget, period, priority, .. } => {
            format!("deferrable server on CPU {cpu}: {budget} every {period}, priority {priority}")
        }
        Rule::Together { leader: None, .. } => "exclusive CPUs again".to_owned(),
        Rule::Together { workload, leader: Some(leader), order } if workload == leader => match order {
            QueueOrder::Weight => "its CPUs are shared by weight with the workloads that join it".to_owned(),
            QueueOrder::Progress => {
                "its CPUs are shared with the workloads that join it, first come, first served".to_owned()
            }
        },
        Rule::Together { leader: Some(leader), .. } => format!("CPUs pooled with workload {}", leader.0),
    }
}

fn whole(cpus: u32) -> String {
    if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") }
}
