//! Where workloads stand, and what stands of what was set on them.

use quell_model::view::at;
use quell_model::{Knob, View, WorkloadId};

use crate::explain::knob_text;
use crate::watch::{Entry, Overridden, Setting, Standing};
use crate::wire;

/// What stands of a knob.
pub(super) fn standing(knob: &Knob, entry: Option<&Entry>) -> String {
    let remarks = entry.map_or(&[][..], |entry| &entry.remarks);
    let is_not_idle_only = remarks.iter().any(|remark| remark.about == wire::RemarkKind::NotIdleOnly);
    let text = match knob {
        // The remark says how far it counts.
        Knob::IdleOnly(true) if is_not_idle_only => "SCHED_IDLE".to_owned(),
        _ => knob_text(knob),
    };
    match entry.and_then(|entry| entry.overridden.as_ref()) {
        Some(overridden) => stands_instead(knob, text, overridden),
        None => text,
    }
}

/// What stands of a knob where another program changed it.
fn stands_instead(knob: &Knob, text: String, overridden: &Overridden) -> String {
    let setting = match knob {
        Knob::Class(_) | Knob::IdleOnly(_) | Knob::Weight(_) | Knob::WakeUpLatency(_) => Setting::Class,
        Knob::Cpus(_) => Setting::Cpus,
        _ => return text,
    };
    let mut of_it = overridden.differing.iter().filter(|differing| differing.setting == setting);
    let Some(first) = of_it.next() else { return text };
    let count = first.count + of_it.map(|differing| differing.count).sum::<u32>();
    match count >= overridden.of {
        true => format!("{} instead of {text}", first.found),
        false => format!("{text}, but {} on {count} of {} threads", first.found, overridden.of),
    }
}

/// The cgroups of an attached workload allow it less than it asks for.
fn limited(entry: &Entry, view: &View) -> Option<wire::Remark> {
    if view.allowances.is_empty() {
        return None;
    }
    let named = |spec: &Option<std::sync::Arc<quell_model::Workload>>| {
        spec.as_ref().is_some_and(|spec| spec.name == entry.workload.name)
    };
    let slot = view.workloads.spec.iter().position(named)?;
    let allowance = view.allowance(WorkloadId(slot as u32))?;
    let asked = entry.workload.cpus;
    allowance.most().filter(|most| *most < asked)?;
    let text = format!(
        "its cgroups allow it {allowance}, less than the {asked} CPUs that it requests: raise CPUQuota= or AllowedCPUs= there"
    );
    Some(wire::Remark { about: wire::RemarkKind::Limited, text })
}

/// States of the configured workloads.
pub(super) fn configured(roster: &[Entry], view: &View) -> Vec<wire::Configured> {
    let threads = |name: &str| {
        let slot = view.workloads.spec.iter().position(|spec| spec.as_ref().is_some_and(|spec| spec.name == name))?;
        at(&view.workloads.thread_count, slot).usable()
    };
    let configured = |entry: &Entry| wire::Configured {
        name: entry.workload.name.clone(),
        class: if entry.workload.is_lc() { wire::Class::Lc } else { wire::Class::Be },
        cpus_requested: entry.workload.cpus.as_f64(),
        state: match entry.standing {
            Standing::Waiting => wire::State::Waiting,
            Standing::Attached => wire::State::Attached,
            Standing::Gone => wire::State::Exited,
            Standing::Left => wire::State::Departed,
            Standing::LeftAlone => wire::State::BackedOff,
            Standing::Refused => wire::State::Refused,
        },
        since_ns: entry.since.0,
        threads: threads(&entry.workload.name),
        selectors: entry.workload.selectors.iter().map(ToString::to_string).collect(),
        leased_by: entry.leased_by.clone(),
        latency: entry.latency.as_ref().map(wire::LatencyPage::from),
        why: entry.why.clone(),
        departed: entry.left.iter().map(ToString::to_string).collect(),
        overridden: entry.overridden.as_ref().map(|overridden| wire::Overridden {
            threads: overridden.threads,
            of: overridden.of,
            since_ns: overridden.since.0,
            differences: overridden.lines(),
            then: crate::watch::LEFT_SO.to_owned(),
        }),
        remarks: entry.remarks.iter().cloned().chain(limited(entry, view)).collect(),
    };
    roster.iter().map(configured).collect()
}

#[cfg(test)]
mod tests {
    use quell_model::{Nanos, SchedClass};

    use super::*;
    use crate::watch::Differing;

    #[test]
    fn a_knob_is_what_stands_and_not_what_was_written() {
        let differing = |count| Differing {
            setting: Setting::Class,
            count,
            wanted: "SCHED_FIFO 1".into(),
            found: "SCHED_OTHER nice 0".into(),
        };
        let text = |count| {
            let overridden = Overridden { since: Nanos(1), threads: count, of: 5, differing: vec![differing(count)] };
            let knob = Knob::Class(SchedClass::Fifo { priority: 1 });
            stands_instead(&knob, knob_text(&knob), &overridden)
        };
        assert_eq!(text(5), "SCHED_OTHER nice 0 instead of SCHED_FIFO 1");
        assert_eq!(text(2), "SCHED_FIFO 1, but SCHED_OTHER nice 0 on 2 of 5 threads");
    }
}
