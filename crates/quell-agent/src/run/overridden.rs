//! What other programs changed of Quell's, by workload: many differing places become a few lines. Pure.

use std::collections::{BTreeMap, BTreeSet};

use quell_linux::Difference;
use quell_linux::write::{Place, Value};
use quell_model::{Nanos, WorkloadId};

use crate::watch::{Differing, Overridden, Setting};

/// The differences of each workload. `threads` is the number of its threads.
#[must_use]
pub fn by_workload(
    differences: &[Difference],
    threads: impl Fn(WorkloadId) -> usize,
    now: Nanos,
) -> BTreeMap<WorkloadId, Overridden> {
    let mut by: BTreeMap<WorkloadId, (Overridden, BTreeSet<i32>)> = BTreeMap::new();
    for difference in differences {
        let Some(id) = difference.workload else { continue };
        let (overridden, of) = by.entry(id).or_insert_with(|| (Overridden::since(now), BTreeSet::new()));
        let (setting, thread) = match &difference.place {
            Place::Class(thread) => (Setting::Class, Some(thread.tid)),
            Place::Affinity(thread) => (Setting::Cpus, Some(thread.tid)),
            place => (Setting::Other(place.to_string()), None),
        };
        of.extend(thread);
        let (wanted, found) = (in_words(&difference.wanted), in_words(&difference.found));
        let same = |known: &&mut Differing| known.setting == setting && known.wanted == wanted && known.found == found;
        match overridden.differing.iter_mut().find(same) {
            Some(known) => known.count += 1,
            None => overridden.differing.push(Differing { setting, count: 1, wanted, found }),
        }
    }
    let counted = |(id, (mut overridden, of)): (WorkloadId, (Overridden, BTreeSet<i32>))| {
        overridden.threads = of.len() as u32;
        overridden.of = (threads(id) as u32).max(overridden.threads);
        // The commonest first.
        overridden.differing.sort_by(|a, b| (b.count, &a.setting).cmp(&(a.count, &b.setting)));
        (id, overridden)
    };
    by.into_iter().map(counted).collect()
}

fn in_words(value: &Value) -> String {
    match value {
        Value::Class(class) => class.class.to_string(),
        Value::Cpus(cpus) => format!("CPUs {cpus}"),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use quell_linux::sched::ThreadClass;
    use quell_model::{SchedClass, ThreadId};

    use super::*;

    fn class(tid: i32, found: SchedClass) -> Difference {
        Difference {
            workload: Some(WorkloadId(1)),
            place: Place::Class(ThreadId { tid, start: 1 }),
            wanted: Value::Class(ThreadClass::of(SchedClass::Fifo { priority: 1 })),
            found: Value::Class(ThreadClass::of(found)),
            stood: true,
        }
    }

    #[test]
    fn differences_of_many_threads_become_a_line_with_a_count() {
        let idle = SchedClass::Idle;
        let cpus = Difference {
            place: Place::Affinity(ThreadId { tid: 3, start: 1 }),
            wanted: Value::Cpus("0".parse().unwrap()),
            found: Value::Cpus("0-3".parse().unwrap()),
            ..class(3, idle)
        };
        let all = [class(1, idle), class(2, SchedClass::NORMAL), class(3, SchedClass::NORMAL), cpus];
        let of = by_workload(&all, |_| 5, Nanos(7));
        let overridden = &of[&WorkloadId(1)];
        assert_eq!((overridden.threads, overridden.of, overridden.since), (3, 5, Nanos(7)));
        let lines = overridden.lines();
        assert_eq!(
            lines,
            [
                "2 threads: SCHED_OTHER nice 0 instead of SCHED_FIFO 1",
                "1 thread: SCHED_IDLE instead of SCHED_FIFO 1",
                "1 thread: CPUs 0-3 instead of CPUs 0",
            ]
        );
    }
}
