//! The CPUs of single threads.

use quell_model::{Capabilities, CpuSet};

use super::{Actuator, Aim, Draft, Here, Subject, Wanted};
use crate::LinuxError;
use crate::members::Thread;
use crate::write::{Place, Value, Write};

/// sched_setaffinity(2).
pub(super) struct Affinity;

impl Actuator for Affinity {
    /// Nothing: the CPU sets' actuator reports it for threads, too.
    fn report(&self, _: &Here<'_>, _: &mut Capabilities) {}

    fn set(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        let each = |(thread, subject)| affinity(draft, subject, thread, aim.threads, &aim.wanted(thread, subject));
        aim.threads().try_for_each(each)
    }
}

fn affinity(
    draft: &mut Draft<'_>,
    subject: &Subject<'_>,
    thread: &Thread,
    threads: &[Thread],
    wanted: &Wanted,
) -> Result<(), LinuxError> {
    let place = Place::Affinity(thread.id);
    if wanted.cpus.is_none() && draft.ledger.origin(&place).is_none() {
        return Ok(());
    }
    let Some(now @ Value::Cpus(before)) = draft.read(&place)? else { return Ok(()) };
    let origin = draft.origin(thread, &place, &now, threads)?;
    let Value::Cpus(origin) = origin else { return Ok(()) };
    let after = match wanted.cpus {
        Some(cpus) => within(&draft.fitting(subject, &cpus)?, &origin),
        None => origin,
    };
    if before != after || draft.inherited(&place, before != origin) {
        draft.push(Write {
            workload: Some(subject.id),
            place,
            origin: Value::Cpus(origin),
            before: Value::Cpus(before),
            after: Value::Cpus(after),
        });
    }
    Ok(())
}

/// A thread that bound itself to CPUs stays within its own choice where the two have a CPU in common.
fn within(cpus: &CpuSet, origin: &CpuSet) -> CpuSet {
    let common = cpus.intersection(origin);
    if common.is_empty() { *cpus } else { common }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_own_binding_is_kept_where_it_can_be() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        assert_eq!(within(&set("0-3"), &set("2")), set("2"));
        assert_eq!(within(&set("0-1"), &set("2")), set("0-1"));
    }
}
