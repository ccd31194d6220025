//! Changes so far.

use std::collections::HashMap;
use std::path::Path;

use quell_model::ThreadId;

use super::{Place, Touched, Value, Write};

/// Every place that Quell changed, with its original value.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: HashMap<Place, (u64, Touched)>,
    next: u64,
}

impl Ledger {
    /// The change of a place, if any.
    pub fn touched(&self, place: &Place) -> Option<&Touched> {
        self.entries.get(place).map(|(_, touched)| touched)
    }

    /// The original value from before Quell.
    pub fn origin(&self, place: &Place) -> Option<&Value> {
        self.touched(place).map(|touched| &touched.origin)
    }

    /// Would this write only take back another program's change of a thread's class? A CPU set may have been widened by the
    /// kernel: where its CPUs go offline, or its cgroup's set changes.
    pub fn is_overridden(&self, write: &Write) -> bool {
        let theirs = |touched: &Touched| touched.last == write.after && !touched.last.is_still(&write.before);
        matches!(write.place, Place::Class(_)) && self.touched(&write.place).is_some_and(theirs)
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

    /// Adopts the record of a place.
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

    /// A cgroup was removed: the values in its files are gone.
    pub fn forget_group(&mut self, group: &Path) {
        self.entries.retain(|place, _| match place {
            Place::File(path) => path.parent() != Some(group),
            Place::Controllers(path) => path != group,
            _ => true,
        });
    }

    /// A control group was removed: its lines and members are gone.
    pub fn forget_control_group(&mut self, removed: &Path) {
        self.entries.retain(|place, _| match place {
            Place::Line(line) => line.group != removed,
            Place::Membership(of) => of.group != removed,
            _ => true,
        });
    }

    /// Everything that a workload's thread had.
    pub fn forget_thread(&mut self, thread: ThreadId) {
        for place in [Place::Affinity(thread), Place::Class(thread), Place::Stopped(thread)] {
            self.forget(&place);
        }
        self.entries.retain(|place, _| !matches!(place, Place::Membership(of) if of.thread == thread));
    }

    /// Files that Quell changed.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.entries.keys().filter_map(|place| match place {
            Place::File(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Control groups that Quell made.
    pub fn groups(&self) -> impl Iterator<Item = &Path> {
        self.entries.values().filter_map(|(_, touched)| match (&touched.place, &touched.last) {
            (Place::Group(group), Value::There(true)) => Some(group.as_path()),
            _ => None,
        })
    }

    /// All changes, the latest touched place first.
    pub fn latest_first(&self) -> Vec<Touched> {
        self.latest_first_of(|_| true)
    }

    /// These changes, the latest touched place first.
    pub fn latest_first_of(&self, which: impl Fn(&Touched) -> bool) -> Vec<Touched> {
        let mut all: Vec<&(u64, Touched)> = self.entries.values().filter(|(_, touched)| which(touched)).collect();
        all.sort_unstable_by_key(|(order, _)| std::cmp::Reverse(*order));
        all.into_iter().map(|(_, touched)| touched.clone()).collect()
    }
}
