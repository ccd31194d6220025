//! The threads of the last scan, by which a new one's creator is known.

use quell_model::{ThreadId, WorkloadId};

use super::{Finder, Thread};
use crate::LinuxError;
use crate::procfs::{ProcFs, ThreadStat};

/// The threads of the last scan.
pub(super) struct Before {
    /// Ascending.
    pub threads: Vec<ThreadId>,
    /// Processes, ascending, each with the start of its oldest thread, and that one's workload.
    pids: Vec<(i32, u64, WorkloadId)>,
    /// Start time of the youngest.
    youngest: u64,
}

/// Generations that one scan may find at once.
const GENERATIONS: usize = 16;

impl Before {
    pub fn of(threads: &[Thread]) -> Before {
        let mut pids: Vec<_> = threads.iter().map(|thread| (thread.pid, thread.id.start, thread.workload)).collect();
        // Sorted almost, because a process's threads have numbers close to its own.
        pids.sort();
        pids.dedup_by_key(|known| known.0);
        let youngest = threads.iter().map(|thread| thread.id.start).max().unwrap_or_default();
        Before { threads: threads.iter().map(|thread| thread.id).collect(), pids, youngest }
    }

    pub fn thread(&self, tid: i32) -> Option<ThreadId> {
        self.threads.binary_search_by_key(&tid, |known| known.tid).ok().map(|at| self.threads[at])
    }

    /// The workload whose values a new thread may have inherited: its process's, or that of the nearest ancestor that was there.
    /// Those between are as new as the thread. What is younger than the thread has an ancestor's number, and is none.
    pub fn creator_of(
        &self,
        proc: &mut ProcFs,
        finder: &Finder,
        pid: i32,
        thread: &ThreadStat,
    ) -> Result<Option<WorkloadId>, LinuxError> {
        if self.pids.is_empty() {
            return Ok(None);
        }
        let (mut parent, born) = (thread.parent, thread.start);
        let mut known = self.workload_of(proc, finder, pid, born)?;
        for _ in 0..GENERATIONS {
            if known.is_some() || parent <= 1 {
                break;
            }
            known = self.workload_of(proc, finder, parent, born)?;
            let stat = if known.is_none() { proc.stat(parent, parent)? } else { None };
            let Some(stat) = stat.filter(|stat| stat.start >= self.youngest) else { break };
            parent = stat.parent;
        }
        Ok(known)
    }

    fn workload_of(
        &self,
        proc: &mut ProcFs,
        finder: &Finder,
        pid: i32,
        born: u64,
    ) -> Result<Option<WorkloadId>, LinuxError> {
        let Ok(at) = self.pids.binary_search_by_key(&pid, |known| known.0) else { return Ok(None) };
        let (_, oldest, workload) = self.pids[at];
        if oldest > born {
            return Ok(None);
        }
        let is_same = !finder.is_doubtful(pid) || proc.stat(pid, pid)?.is_some_and(|process| process.start <= oldest);
        Ok(is_same.then_some(workload))
    }
}
