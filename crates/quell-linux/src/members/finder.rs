//! Selectors resolved to processes and threads.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::path::PathBuf;

use quell_model::{Nanos, WorkloadId};

use super::{Processes, Resolved};
use crate::procfs::ProcFs;
use crate::{LinuxError, cgroup};

/// A thread that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    /// Its number.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// The workload.
    pub workload: WorkloadId,
    /// Is its process selected by its own number or command line, not found as a child of one that is?
    pub explicit: bool,
}

/// This process and those that started it. A command line such as `sudo quell exec memcached` holds the text that it
/// selects.
pub(crate) fn own_line(proc: &mut ProcFs) -> Result<Vec<i32>, LinuxError> {
    let mut line = vec![std::process::id() as i32];
    while let Some(stat) = line.last().map(|&pid| proc.stat(pid, pid)).transpose()?.flatten() {
        if stat.parent <= 1 || line.contains(&stat.parent) {
            break;
        }
        line.push(stat.parent);
    }
    Ok(line)
}

/// Finds the threads of all workloads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finder {
    processes: Processes,
    /// Processes in the workloads' cgroups.
    claims: Vec<(i32, WorkloadId)>,
    tids: Vec<i32>,
    pids: Vec<i32>,
    exempt: Vec<i32>,
}

impl Finder {
    /// The first of the exempt processes belongs to none; the others match no command line.
    pub fn new(exempt: Vec<i32>) -> Finder {
        Finder { exempt, ..Finder::default() }
    }

    /// Processes that no command line matches.
    pub fn exempt(&self) -> &[i32] {
        &self.exempt
    }

    /// Selectors changed: look at every process again.
    pub fn selectors_changed(&mut self) {
        self.processes.invalidate();
    }

    /// Finds all threads of all workloads, ascending by number.
    pub fn scan(
        &mut self,
        proc: &mut ProcFs,
        workloads: &[(WorkloadId, Resolved)],
        now: Nanos,
        found: &mut Vec<Found>,
    ) -> Result<(), LinuxError> {
        self.claim_cgroups(workloads, &|_| true)?;
        if workloads.iter().any(|(_, resolved)| resolved.selects_processes()) {
            self.processes.scan(proc, workloads, &self.claims, &self.exempt, now)?;
            for (pid, workload, explicit) in self.processes.owned() {
                match self.claims.binary_search_by_key(&pid, |claim| claim.0) {
                    Ok(at) if explicit => self.claims[at].1 = workload,
                    Ok(_) => {}
                    Err(at) => self.claims.insert(at, (pid, workload)),
                }
            }
        }
        self.list_threads(proc, found)
    }

    /// Finds the threads in the cgroups of these workloads alone, ascending by number. Only where no workload selects
    /// processes: those would be missed.
    pub fn scan_cgroups(
        &mut self,
        proc: &mut ProcFs,
        workloads: &[(WorkloadId, Resolved)],
        which: &dyn Fn(WorkloadId) -> bool,
        found: &mut Vec<Found>,
    ) -> Result<(), LinuxError> {
        self.claim_cgroups(workloads, which)?;
        self.list_threads(proc, found)
    }

    fn list_threads(&mut self, proc: &mut ProcFs, found: &mut Vec<Found>) -> Result<(), LinuxError> {
        found.clear();
        for &(pid, workload) in self.claims.iter().filter(|(pid, _)| Some(pid) != self.exempt.first()) {
            self.tids.clear();
            proc.threads(pid, &mut self.tids)?;
            let explicit = self.processes.is_explicit(pid);
            found.extend(self.tids.iter().map(|&tid| Found { tid, pid, workload, explicit }));
        }
        found.sort_unstable();
        // A thread of a threaded cgroup is listed by its own number and by its process's.
        found.dedup_by_key(|found| found.tid);
        Ok(())
    }

    /// The processes that sit in these workloads' cgroups, ascending; a deeper cgroup counts before a higher one.
    fn claim_cgroups(
        &mut self,
        workloads: &[(WorkloadId, Resolved)],
        which: &dyn Fn(WorkloadId) -> bool,
    ) -> Result<(), LinuxError> {
        self.claims.clear();
        // Made where a cgroup has some below it.
        let owned: LazyCell<HashSet<&PathBuf>, _> =
            LazyCell::new(|| workloads.iter().flat_map(|(_, resolved)| resolved.group_paths()).collect());
        for (id, resolved) in workloads.iter().filter(|(id, _)| which(*id)) {
            for path in resolved.group_paths() {
                for group in cgroup::subtree(path, &|below| !owned.contains(below))? {
                    self.pids.clear();
                    cgroup::members(&group, &mut self.pids)?;
                    self.claims.extend(self.pids.iter().map(|&pid| (pid, *id)));
                }
            }
        }
        self.claims.sort_unstable();
        self.claims.dedup_by_key(|claim| claim.0);
        Ok(())
    }
}
