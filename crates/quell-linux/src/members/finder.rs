//! Selectors resolved to processes and threads.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::path::PathBuf;

use quell_model::{Nanos, WorkloadId};

use super::{Processes, Resolved};
use crate::cgroup::Kind;
use crate::procfs::{Numbers, ProcFs};
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
    /// Threads in the workloads' threaded cgroups.
    threads: Vec<(i32, WorkloadId)>,
    /// The processes of such threads, as of the last scan.
    homes: Vec<(i32, i32)>,
    /// Which numbers may have been given out again since the last look at everything.
    numbers: Numbers,
    /// When the last look at everything began, in the unit of start times.
    pub began: Option<u64>,
    /// Number of the machine's CPUs; 0: not known.
    pub cpus: usize,
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

    /// A look was in vain: after the next one any number may have been given out again.
    pub fn forget_numbers(&mut self) {
        self.numbers.forget();
    }

    /// May the thread with this number be another one since the last look at everything?
    pub fn is_doubtful(&self, tid: i32) -> bool {
        self.numbers.is_doubtful(tid)
    }

    /// Is every thread with a known number the same since the last look at everything?
    pub fn all_certain(&self) -> bool {
        self.numbers.all_certain()
    }

    /// Finds all threads of all workloads, ascending by number.
    pub fn scan(
        &mut self,
        proc: &mut ProcFs,
        workloads: &[(WorkloadId, Resolved)],
        now: Nanos,
        found: &mut Vec<Found>,
    ) -> Result<(), LinuxError> {
        self.numbers.look(proc, self.cpus, now);
        self.began = proc.uptime();
        self.claim_cgroups(workloads, &|_| true)?;
        if workloads.iter().any(|(_, resolved)| resolved.selects_processes()) {
            self.processes.scan(proc, workloads, &self.claims, &self.exempt, &self.numbers, now)?;
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
        self.list_single_threads(proc, found)?;
        let single = found.len();
        for &(pid, workload) in self.claims.iter().filter(|(pid, _)| Some(pid) != self.exempt.first()) {
            self.tids.clear();
            proc.threads(pid, &mut self.tids)?;
            let explicit = self.processes.is_explicit(pid);
            found.extend(self.tids.iter().map(|&tid| Found { tid, pid, workload, explicit }));
        }
        if single > 0 {
            // A thread's own cgroup counts before its process's.
            found.sort_by_key(|found| found.tid);
            found.dedup_by_key(|found| found.tid);
        } else {
            found.sort_unstable();
        }
        Ok(())
    }

    /// The threads of threaded cgroups, but for those of processes that are selected by themselves.
    fn list_single_threads(&mut self, proc: &mut ProcFs, found: &mut Vec<Found>) -> Result<(), LinuxError> {
        if self.threads.is_empty() {
            self.homes.clear();
            return Ok(());
        }
        for &(tid, workload) in &self.threads {
            let known = self.homes.binary_search_by_key(&tid, |home| home.0).map(|at| self.homes[at].1);
            let home = match known {
                Ok(pid) if proc.has_thread(pid, tid) => Some(pid),
                _ => proc.process_of(tid)?,
            };
            let is_own = |pid: &i32| Some(pid) != self.exempt.first() && !self.processes.is_explicit(*pid);
            found.extend(home.filter(is_own).map(|pid| Found { tid, pid, workload, explicit: false }));
        }
        self.homes.clear();
        self.homes.extend(found.iter().map(|found| (found.tid, found.pid)));
        Ok(())
    }

    /// The processes and threads that sit in these workloads' cgroups, ascending; a deeper cgroup counts before a higher one.
    fn claim_cgroups(
        &mut self,
        workloads: &[(WorkloadId, Resolved)],
        which: &dyn Fn(WorkloadId) -> bool,
    ) -> Result<(), LinuxError> {
        self.claims.clear();
        self.threads.clear();
        // Made where a cgroup has some below it.
        let owned: LazyCell<HashSet<&PathBuf>, _> =
            LazyCell::new(|| workloads.iter().flat_map(|(_, resolved)| resolved.group_paths()).collect());
        for (id, resolved) in workloads.iter().filter(|(id, _)| which(*id)) {
            for path in resolved.group_paths() {
                for group in cgroup::subtree(path, &|below| !owned.contains(below))? {
                    self.pids.clear();
                    let claims = match cgroup::members(&group, &mut self.pids)? {
                        Kind::Processes => &mut self.claims,
                        Kind::Threads => &mut self.threads,
                    };
                    claims.extend(self.pids.iter().map(|&number| (number, *id)));
                }
            }
        }
        for claims in [&mut self.claims, &mut self.threads] {
            claims.sort_unstable();
            claims.dedup_by_key(|claim| claim.0);
        }
        Ok(())
    }
}
