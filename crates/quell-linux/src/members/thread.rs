//! Known facts of a thread.

use quell_model::{CpuId, SchedClass, ThreadId, ThreadState, WorkloadId};

use super::Found;
use crate::procfs::SchedStat;

/// The level on which a workload's values are set.
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
    /// That parent's first thread, if it was a workload's at the scan before: it may have left in the same scan.
    pub creator: Option<ThreadId>,
    pub workload: WorkloadId,
    /// Was its process selected by its own number or command line when the thread was found?
    pub explicit: bool,
    /// Born after Quell had set values on its workload, so that it may have inherited them.
    pub born_under: bool,
    /// The workload of its process, or of its process's parent, when it was found; None: they were no workload's.
    pub born_of: Option<WorkloadId>,
    pub state: ThreadState,
    pub cpu: CpuId,
    pub class: SchedClass,
    pub run: SchedStat,
    /// Is the run time counted by Linux's scheduler, not by ticks?
    pub exact: bool,
}

impl Thread {
    /// Was it seen dead, or its number with another start time?
    pub fn is_dead(&self) -> bool {
        self.state == ThreadState::Dead
    }

    /// Is it this one, and alive?
    pub fn is(&self, found: &Found) -> bool {
        (self.id.tid, self.pid, self.workload) == (found.tid, found.pid, found.workload) && !self.is_dead()
    }

    /// As a look would find it again.
    pub fn as_found(&self) -> Found {
        Found { tid: self.id.tid, pid: self.pid, workload: self.workload, explicit: self.explicit }
    }

    /// Is it its process's first thread, which represents the process?
    pub fn is_first(&self) -> bool {
        self.id.tid == self.pid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thread_has_its_processes_number() {
        let thread = |tid| Thread { id: ThreadId { tid, start: 1 }, pid: 7, ..Thread::default() };
        assert!(thread(7).is_first() && !thread(8).is_first());
    }
}
