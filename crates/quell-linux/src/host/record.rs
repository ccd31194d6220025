//! What the host remembers: threads, places that it changed, what workloads had before.

use std::collections::HashMap;
use std::path::Path;

use quell_model::{CpuId, CpuSet, SchedClass, ThreadId, ThreadState, WorkloadId};

use crate::knobs::Wanted;
use crate::procfs::SchedStat;
use crate::sched::ThreadClass;
use crate::write::{Place, Touched, Value, Write};

/// Where a workload's values are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// On its cgroups.
    Cgroup,
    /// On each of its threads.
    Threads,
}

/// A thread of a workload.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Thread {
    pub id: ThreadId,
    pub pid: i32,
    /// The process's parent when the thread was found.
    pub parent: i32,
    pub workload: WorkloadId,
    /// Born after Quell had set values on its workload, so that it may have inherited them.
    pub born_under: bool,
    pub state: ThreadState,
    pub cpu: CpuId,
    pub class: SchedClass,
    pub run: SchedStat,
    /// Is the run time counted by the kernel's scheduler, not by ticks?
    pub exact: bool,
}

/// What policies set on single threads, beside what stands for their workloads.
pub(crate) type Overrides = HashMap<ThreadId, (WorkloadId, Wanted)>;

/// Every place that Quell changed, with what stood there first.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: HashMap<Place, (u64, Touched)>,
    next: u64,
}

impl Ledger {
    /// The change of a place, if there was one.
    pub fn touched(&self, place: &Place) -> Option<&Touched> {
        self.entries.get(place).map(|(_, touched)| touched)
    }

    /// What stood there before Quell touched it.
    pub fn origin(&self, place: &Place) -> Option<&Value> {
        self.touched(place).map(|touched| &touched.origin)
    }

    /// A write was made.
    pub fn note(&mut self, write: &Write) {
        self.adopt(Touched {
            workload: write.workload,
            place: write.place.clone(),
            origin: write.origin.clone(),
            last: write.after.clone(),
        });
    }

    /// Takes over what is known of a place.
    pub fn adopt(&mut self, touched: Touched) {
        self.next += 1;
        let next = self.next;
        match self.entries.get_mut(&touched.place) {
            Some((_, known)) => known.last = touched.last,
            None => {
                self.entries.insert(touched.place.clone(), (next, touched));
            }
        }
    }

    /// A place is gone or has been put back.
    pub fn forget(&mut self, place: &Place) {
        self.entries.remove(place);
    }

    /// A cgroup was removed: what stood in its files is gone.
    pub fn forget_group(&mut self, group: &Path) {
        self.entries.retain(|place, _| match place {
            Place::File(path) => path.parent() != Some(group),
            Place::Controllers(path) => path != group,
            _ => true,
        });
    }

    /// Everything that a workload's thread had.
    pub fn forget_thread(&mut self, thread: ThreadId) {
        for place in [Place::Affinity(thread), Place::Class(thread), Place::Stopped(thread)] {
            self.forget(&place);
        }
    }

    /// All changes, the latest touched place first.
    pub fn latest_first(&self) -> Vec<Touched> {
        let mut all: Vec<&(u64, Touched)> = self.entries.values().collect();
        all.sort_unstable_by_key(|(order, _)| std::cmp::Reverse(*order));
        all.into_iter().map(|(_, touched)| touched.clone()).collect()
    }
}

/// What Quell set on a workload's threads, so that what a thread inherited can be told from what it has of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    classes: Vec<ThreadClass>,
    cpus: Vec<CpuSet>,
}

/// So many different values are remembered.
const REMEMBERED: usize = 64;

impl History {
    /// Has Quell set anything on threads of this workload?
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.cpus.is_empty()
    }

    /// A write was made.
    pub fn note(&mut self, write: &Write) {
        match (&write.place, &write.after) {
            (Place::Class(_), &Value::Class(after)) => {
                remember(&mut self.classes, after);
                if after.reset_on_fork {
                    remember(&mut self.classes, ThreadClass::of(SchedClass::NORMAL));
                }
            }
            (Place::Affinity(_), &Value::Cpus(after)) => {
                remember(&mut self.cpus, after);
            }
            _ => {}
        }
    }

    /// Has a thread this value of a place because it was born under it?
    pub fn inherited(&self, thread: &Thread, now: &Value) -> bool {
        thread.born_under
            && match now {
                Value::Class(now) => self.classes.iter().any(|set| now.is_like(set)),
                Value::Cpus(now) => self.cpus.contains(now),
                _ => false,
            }
    }
}

fn remember<T: PartialEq>(values: &mut Vec<T>, value: T) {
    if !values.contains(&value) {
        if values.len() == REMEMBERED {
            values.remove(0);
        }
        values.push(value);
    }
}
