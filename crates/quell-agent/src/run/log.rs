//! What a turn decided, for the log and the guardian.

use quell_linux::LinuxHost;
use quell_model::{Event, LeaseRequest, Nanos, NoteKind, Part, Policy, SoloEnd, Verdict};

use crate::guardian::Worker;
use crate::stack::{Layer, Stack};

/// Logs decisions and refusals.
pub(super) fn log(stack: &Stack, shadow: bool, host: &LinuxHost) {
    let view = stack.view();
    for layer in stack.layers().iter().filter(|layer| layer.stepped()) {
        let policy = layer.policy.describe().name;
        for note in &layer.plan.notes {
            let spec = note.about.and_then(|id| view.workloads.spec.get(id.index())?.as_ref());
            let workload = spec.map_or("", |spec| spec.name.as_str());
            match note.kind {
                NoteKind::Because => tracing::info!(policy, workload, "{}", note.text),
                NoteKind::Warning | NoteKind::Refused => tracing::warn!(policy, workload, "{}", note.text),
            }
        }
        if shadow {
            for setting in &layer.plan.knobs {
                let (knob, programs) = (crate::explain::knob_set(&setting.knob), host.programs(setting.target));
                match host.workload_of(setting.target) {
                    Some(workload) => tracing::info!(policy, "would set {knob} on {workload} ({programs})"),
                    None => tracing::info!(policy, "would set {knob} on {programs}"),
                }
            }
        }
    }
}

/// Notifies the guardian which solo runs must be over when: with several at once, the one that began last.
pub(super) fn tell_leases(worker: &Worker, layers: &[Layer], longest: Nanos) {
    for layer in layers.iter().filter(|layer| layer.stepped()) {
        if layer.events.iter().any(|event| matches!(event, Event::SoloEnded(_, why) if *why != SoloEnd::Passed)) {
            worker.lease(None);
        }
        for event in &layer.outcomes {
            let Event::Outcome(outcome) = event else { continue };
            let (Part::Lease(at), Verdict::Applied(began)) = (outcome.part, &outcome.verdict) else { continue };
            match layer.plan.leases.get(at as usize) {
                Some(LeaseRequest::Begin(lease)) => worker.lease(Some(*began + lease.at_most.min(longest))),
                Some(LeaseRequest::End(_)) => worker.lease(None),
                // It ends when it would have ended.
                Some(LeaseRequest::Pass { .. }) | None => {}
            }
        }
    }
}
