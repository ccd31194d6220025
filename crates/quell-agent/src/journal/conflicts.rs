//! Workloads of which another Quell has a thread: nothing of theirs is changed.

use std::collections::BTreeMap;
use std::io;

use quell_linux::write::{Conflict, Place, Write};
use quell_model::{ThreadId, WorkloadId};

use super::file::thread_of;
use super::others::Owner;
use super::{Entry, Owners, Replay};

/// The conflicts of one journal's Quell with others.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    owners: Option<Owners>,
    /// True: not reported yet.
    known: BTreeMap<WorkloadId, (Conflict, bool)>,
}

impl Conflicts {
    /// None yet.
    pub fn with(owners: Option<Owners>) -> Conflicts {
        Conflicts { owners, known: BTreeMap::new() }
    }

    /// A workload is looked at anew.
    pub fn forget(&mut self, id: WorkloadId) {
        self.known.remove(&id);
    }

    /// The next one, each once.
    pub fn next(&mut self) -> Option<Conflict> {
        let (conflict, untold) = self.known.values_mut().find(|(_, untold)| *untold)?;
        *untold = false;
        Some(conflict.clone())
    }

    /// Has another Quell this thread?
    pub fn is_anothers(&mut self, thread: ThreadId) -> bool {
        self.owners.as_mut().is_some_and(|owners| owners.owner(thread).is_some())
    }

    /// Takes the thread of a write on a place that is as it was.
    ///
    /// # Errors
    /// If another Quell has a thread of the write's workload.
    pub fn refuse(&mut self, write: &Write) -> io::Result<()> {
        let Some(workload) = write.workload else { return Ok(()) };
        if let Some(thread) = thread_of(&write.place) {
            self.take(workload, thread);
        }
        self.known.get(&workload).map_or(Ok(()), |(conflict, _)| Err(io::Error::other(conflict.by.clone())))
    }

    /// The workloads' threads, ascending: new ones are taken, and those that left are given back unless they are changed.
    pub fn members(&mut self, threads: &mut dyn Iterator<Item = (WorkloadId, ThreadId)>, state: &Replay) {
        let Some(owners) = &mut self.owners else { return };
        let (mut fresh, mut gone) = (Vec::new(), Vec::new());
        let mut owned = owners.threads().peekable();
        for (workload, thread) in threads {
            while let Some(other) = owned.next_if(|other| *other < thread) {
                gone.push(other);
            }
            if owned.next_if_eq(&thread).is_none() {
                fresh.push((workload, thread));
            }
        }
        gone.extend(owned);
        gone.retain(|thread| !is_changed(state, *thread));
        owners.release(&gone);
        fresh.into_iter().for_each(|(workload, thread)| self.take(workload, thread));
    }

    fn take(&mut self, workload: WorkloadId, thread: ThreadId) {
        let Some(owners) = &mut self.owners else { return };
        if let Err(Owner { by, socket }) = owners.take(thread) {
            self.known.entry(workload).or_insert((Conflict { workload, thread, by, socket }, true));
        }
    }
}

/// Is there anything of Quell's on a thread?
fn is_changed(state: &Replay, thread: ThreadId) -> bool {
    let places = [Place::Affinity(thread), Place::Class(thread), Place::Stopped(thread)];
    places.iter().any(|place| state.entry(place).is_some_and(|entry: &Entry| !entry.is_closed()))
}
