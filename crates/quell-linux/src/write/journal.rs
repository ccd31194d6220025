use std::fmt;
use std::io;
use std::path::PathBuf;

use quell_model::{ThreadId, WorkloadId};

use super::Write;

/// Outcome of a write in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Done.
    Applied,
    /// The place is gone; nothing was to be done.
    Vanished,
    /// The system refused it: the place has its value from before.
    Refused,
    /// Done and taken back, because a later write of the same plan was refused.
    TakenBack,
}

/// A workload has a thread that another Quell has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The workload.
    pub workload: WorkloadId,
    /// The thread.
    pub thread: ThreadId,
    /// The other Quell, in words.
    pub by: String,
    /// Where it may answer requests, if it lives.
    pub socket: Option<PathBuf>,
}

/// Gets every write before it is made, so that another process can take it back when Quell dies.
pub trait Journal: fmt::Debug + Send {
    /// This write is about to be made. It is not made if this fails.
    ///
    /// # Errors
    /// If the write could not be recorded.
    fn before(&mut self, write: &Write) -> io::Result<()>;

    /// Records the outcome. A failure here does not take the write back: the record of [`Journal::before`] stays true.
    ///
    /// # Errors
    /// If the outcome could not be recorded.
    fn done(&mut self, write: &Write, fate: Fate) -> io::Result<()>;

    /// A workload has this name from now on.
    fn attached(&mut self, _id: WorkloadId, _name: &str) {}

    /// The workloads' threads, after they changed and before anything is set on them.
    fn members(&mut self, _threads: &mut dyn Iterator<Item = (WorkloadId, ThreadId)>) {}

    /// A workload of which no write is recorded, because another Quell has a thread of it. Each once.
    fn conflict(&mut self) -> Option<Conflict> {
        None
    }

    /// Has another Quell this thread?
    fn is_anothers(&mut self, _thread: ThreadId) -> bool {
        false
    }
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn before(&mut self, _: &Write) -> io::Result<()> {
        Ok(())
    }

    fn done(&mut self, _: &Write, _: Fate) -> io::Result<()> {
        Ok(())
    }
}
