//! Which threads of the machine a program means by the numbers in its page: those of its own pid namespace.

use quell_model::ThreadId;

use crate::members::{Members, Thread};
use crate::procfs::ProcFs;

/// The numbers of one process's threads. Only threads that the last scan found in that process count: whatever the page says, it
/// can mean no other process's.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Has the process the same numbers here? None: not known yet.
    are_ours: Option<bool>,
    /// In its namespace, and here.
    known: Vec<(u32, ThreadId)>,
    /// Threads of it that were not asked for their number yet, and the scan that found them.
    pending: Vec<ThreadId>,
    scan: u64,
}

impl Numbers {
    /// Learns at most one thread's number. Returns whether a file was read.
    pub fn learn(&mut self, process: i32, threads: &[Thread], scan: u64, proc: &mut ProcFs) -> bool {
        if self.are_ours == Some(true) {
            return false;
        }
        if self.scan != scan {
            self.scan = scan;
            let of_it = || threads.iter().filter(|thread| thread.pid == process).map(|thread| thread.id);
            self.known.retain(|(_, id)| of_it().any(|there| there == *id));
            self.pending.clear();
            self.pending.extend(of_it().filter(|id| !self.known.iter().any(|(_, known)| known == id)));
        }
        let Some(id) = self.pending.pop() else { return false };
        if let Some((number, is_ours)) = proc.own_number(process, id.tid) {
            self.are_ours = Some(is_ours);
            self.known.push((number, id));
        }
        true
    }

    /// The thread that the process calls so; None: it is not known, or not the process's.
    pub fn thread<'a>(&self, process: i32, number: u32, members: &'a Members) -> Option<&'a Thread> {
        let tid = match self.are_ours? {
            true => i32::try_from(number).ok()?,
            false => self.known.iter().find(|(known, _)| *known == number)?.1.tid,
        };
        members.thread(tid).filter(|thread| thread.pid == process)
    }
}
