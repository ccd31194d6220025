//! The scheduling classes of threads: real-time, and the substitutes of weight and idle-only for single threads, and their slices.

use quell_model::{Capabilities, KnobKind, SchedClass, Support};

use super::{Actuator, Aim, Draft, Here, Subject, Wanted};
use crate::LinuxError;
use crate::cgroup::CpuV1;
use crate::members::Thread;
use crate::sched::{ThreadClass, nice_of_weight};
use crate::write::{Place, Value, Write};

/// sched_setattr(2).
pub(super) struct Classes;

impl Actuator for Classes {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        let support = match here.has_sys_nice() {
            true => {
                let interval = here.options.scan_interval;
                let closed = CpuV1::find(here.roots).is_some_and(|cpu| cpu.has_real_time_budgets());
                let closed =
                    if closed { "; a cgroup whose cpu.rt_runtime_us is 0 can have no real-time class" } else { "" };
                Support::Partly(format!("threads created later get it within {interval}{closed}"))
            }
            // A dry run sets nothing: it only reports the missing privilege.
            false if here.options.dry_run => {
                Support::Partly("without CAP_SYS_NICE it could not be set: run as root for that".into())
            }
            false => Support::No {
                why: "real-time classes and smaller nice values need CAP_SYS_NICE".into(),
                fix: "run as root".into(),
            },
        };
        found.knobs.insert(KnobKind::Class, support);
    }

    /// Real-time classes are taken away before they are given.
    fn set(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        let mut promotions = Vec::new();
        for (thread, subject) in aim.threads() {
            let mut wanted = aim.wanted(thread, subject);
            let has_own = aim.overrides.get(&thread.id).is_some_and(|(_, own)| own.weight.is_some());
            if has_own && draft.own_weight(thread).is_some() {
                wanted.weight = None;
            }
            if let Some(write) = class(draft, subject, thread, aim.threads, &wanted)? {
                if is_real_time(&write.after) { promotions.push(write) } else { draft.push(write) }
            }
        }
        promotions.into_iter().for_each(|write| draft.push(write));
        Ok(())
    }
}

fn class(
    draft: &mut Draft<'_>,
    subject: &Subject<'_>,
    thread: &Thread,
    threads: &[Thread],
    wanted: &Wanted,
) -> Result<Option<Write>, LinuxError> {
    let place = Place::Class(thread.id);
    let untouched =
        wanted.class.is_none() && wanted.weight.is_none() && wanted.idle.is_none() && wanted.latency.is_none();
    if untouched && draft.ledger.origin(&place).is_none() {
        return Ok(None);
    }
    let Some(now @ Value::Class(before)) = draft.read(&place)? else { return Ok(None) };
    let origin = draft.origin(thread, &place, &now, threads)?;
    let Value::Class(origin) = origin else { return Ok(None) };
    // What it set itself since Quell's last write is its own, too.
    let is_its = draft.ledger.touched(&place).is_some_and(|touched| !touched.last.is_still(&now));
    let own = if is_its { before } else { origin };
    let after = class_of(wanted, &origin, &own);
    // Kernels before 6.12 forget the slice that was written.
    let was_written = draft.ledger.touched(&place).is_some_and(|touched| touched.last == Value::Class(after));
    let stands = before.is_like(&after) || was_written && before.is_as_written(&after);
    let same = stands && before.reset_on_fork == after.reset_on_fork;
    let inherited = draft.inherited(&place, !before.is_like(&origin));
    Ok((!same || inherited).then_some(Write {
        workload: Some(subject.id),
        place,
        origin: Value::Class(origin),
        before: Value::Class(before),
        after: Value::Class(after),
    }))
}

/// The class of a thread for which these values stand: idle-only before everything, then the class that was set, as its
/// own class allows ([`SchedClass::beside`]), with the weight as its nice value.
fn class_of(wanted: &Wanted, origin: &ThreadClass, own: &ThreadClass) -> ThreadClass {
    let class = match wanted.idle {
        Some(true) => Some(SchedClass::Idle),
        _ => wanted.class.map(|class| class.beside(own.class)),
    };
    let base = class.unwrap_or(origin.class);
    let base = match (base, wanted.latency) {
        (SchedClass::Fair { nice, .. }, Some(slice)) => SchedClass::Fair { nice, slice },
        (other, _) => other,
    };
    let class = match (base, wanted.weight) {
        (SchedClass::Fair { slice, .. }, Some(weight)) => SchedClass::Fair { nice: nice_of_weight(weight), slice },
        (SchedClass::Batch { .. }, Some(weight)) => SchedClass::Batch { nice: nice_of_weight(weight) },
        (other, _) => other,
    };
    [origin, own].into_iter().find(|had| had.class == class).copied().unwrap_or_else(|| ThreadClass::of(class))
}

fn is_real_time(value: &Value) -> bool {
    matches!(value, Value::Class(class) if class.class.is_real_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_combine_to_one_class() {
        let origin = ThreadClass::of(SchedClass::Batch { nice: 3 });
        let wanted = |class, weight, idle| {
            class_of(&Wanted { class, weight, idle, ..Wanted::default() }, &origin, &origin).class
        };
        assert_eq!(wanted(None, None, None), SchedClass::Batch { nice: 3 });
        assert_eq!(wanted(None, Some(100), None), SchedClass::Batch { nice: 0 });
        assert_eq!(wanted(Some(SchedClass::NORMAL), Some(1), None), SchedClass::Batch { nice: 19 });
        let latency = Some(Some(quell_model::Nanos::from_millis(1)));
        let both = Wanted { class: Some(SchedClass::NORMAL), weight: Some(125), latency, ..Wanted::default() };
        let fair = SchedClass::Fair { nice: -1, slice: latency.flatten() };
        let normal = ThreadClass::of(SchedClass::NORMAL);
        assert_eq!(class_of(&both, &normal, &normal).class, fair, "a weight and a latency are one class");
        assert_eq!(wanted(Some(SchedClass::Fifo { priority: 1 }), Some(1), Some(true)), SchedClass::Idle);
        assert!(class_of(&fifo(), &normal, &normal).reset_on_fork);
    }

    fn fifo() -> Wanted {
        Wanted { class: Some(SchedClass::Fifo { priority: 1 }), ..Wanted::default() }
    }

    #[test]
    fn a_threads_own_class_is_kept_as_it_was() {
        let own = ThreadClass { reset_on_fork: false, ..ThreadClass::of(SchedClass::Fifo { priority: 50 }) };
        assert_eq!(class_of(&fifo(), &own, &own), own, "its children stay real-time, too");
        let demoted = Wanted { class: Some(SchedClass::NORMAL), ..Wanted::default() };
        assert_eq!(class_of(&demoted, &own, &own), own);
        let idle = ThreadClass::of(SchedClass::Idle);
        assert_eq!(class_of(&fifo(), &idle, &idle), idle);
        let normal = ThreadClass::of(SchedClass::NORMAL);
        assert_eq!(class_of(&demoted, &normal, &own), own, "what it set itself meanwhile");
        assert_eq!(class_of(&fifo(), &normal, &idle), idle);
        assert_eq!(class_of(&Wanted { weight: Some(1), ..Wanted::default() }, &own, &own), own);
        let idle_only = Wanted { idle: Some(true), ..Wanted::default() };
        assert_eq!(class_of(&idle_only, &own, &own), idle, "best-effort work is bounded");
    }
}
