//! The processes that a sweep looks at: those in a journal and their descendants, or all of the machine.

use std::collections::{BTreeSet, HashMap};

use quell_linux::LinuxError;
use quell_linux::procfs::ProcFs;
use quell_model::ThreadState;

#[derive(Debug)]
pub(super) struct Process {
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    pub start: u64,
    /// Ended, and not reaped.
    pub is_dead: bool,
}

/// The processes that a sweep looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Those in the journal, and their descendants: a machine's other processes cost nothing.
    Families,
    /// All of the machine: orphans are found by this one only.
    Machine,
}

/// What sweeps have found, for those that follow.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Processes in which a thread had inherited a value.
    pub found: BTreeSet<i32>,
    /// The kernel lists no children (CONFIG_PROC_CHILDREN): every sweep goes over the machine.
    unlisted: bool,
}

/// The numbers of the processes to look at, and what is known of them and of those around them.
pub(super) type Seen = (Vec<i32>, HashMap<i32, Process>);

/// Reads them.
///
/// # Errors
/// If the processes cannot be read.
pub(super) fn processes(
    proc: &mut ProcFs,
    reach: Reach,
    families: impl Iterator<Item = i32>,
    known: &mut Known,
) -> Result<Seen, LinuxError> {
    match reach {
        Reach::Families if !known.unlisted => related(proc, families, known),
        _ => everything(proc),
    }
}

fn everything(proc: &mut ProcFs) -> Result<Seen, LinuxError> {
    let mut pids = Vec::new();
    proc.pids(&mut pids)?;
    let mut processes = HashMap::with_capacity(pids.len());
    for &pid in &pids {
        processes.extend(Process::read(proc, pid)?.map(|process| (pid, process)));
    }
    pids.retain(|pid| processes.contains_key(pid));
    Ok((pids, processes))
}

/// The processes in the journal, those that were found before, and the descendants of both; and, of a process whose parent is
/// none of them, the parent, by which an orphan is recognised.
fn related(proc: &mut ProcFs, families: impl Iterator<Item = i32>, known: &mut Known) -> Result<Seen, LinuxError> {
    let mut pids: Vec<i32> = families.chain(known.found.iter().copied()).collect();
    let mut processes = HashMap::new();
    let mut at = 0;
    while at < pids.len() {
        let pid = pids[at];
        at += 1;
        if processes.contains_key(&pid) {
            continue;
        }
        let Some(process) = Process::read(proc, pid)? else { continue };
        let alive = !proc.children(pid, &mut pids)? && Process::read(proc, pid)?.is_some_and(|now| !now.is_dead);
        if alive {
            known.unlisted = true;
            return everything(proc);
        }
        processes.insert(pid, process);
    }
    pids.sort_unstable();
    pids.dedup();
    pids.retain(|pid| processes.contains_key(pid));
    let parents: Vec<i32> = processes.values().map(|process| process.parent).collect();
    for parent in parents.into_iter().filter(|parent| *parent > 0) {
        if !processes.contains_key(&parent) {
            processes.extend(Process::read(proc, parent)?.map(|process| (parent, process)));
        }
    }
    Ok((pids, processes))
}

impl Process {
    /// `None`: it vanished, or is the kernel's.
    fn read(proc: &mut ProcFs, pid: i32) -> Result<Option<Process>, LinuxError> {
        let stat = proc.stat(pid, pid)?.filter(|stat| !stat.is_kernels);
        Ok(stat.map(|stat| Process {
            parent: stat.parent,
            group: stat.group,
            session: stat.session,
            start: stat.start,
            is_dead: stat.state == ThreadState::Dead,
        }))
    }
}
