//! The machine's processes and their workloads, for workloads that are selected by process number or command line.

use quell_model::{Nanos, WorkloadId};

use super::Resolved;
use crate::LinuxError;
use crate::cgroup::line_contains;
use crate::procfs::{FileId, ProcFs};

/// Interval of reading command lines again: a process may become another program at any time.
const COMMANDS_EVERY: Nanos = Nanos::from_secs(1);

#[derive(Clone, Copy, Debug)]
struct Process {
    pid: i32,
    start: u64,
    /// The parent when the process was first seen; a process whose parent dies stays in its workload.
    parent: i32,
    owner: Option<WorkloadId>,
    /// Owned by its own number or command line, not by its parent's.
    explicit: bool,
    by_command: Option<WorkloadId>,
    /// The file that it executed when its command line was found to be meant, if the selector asks for that.
    executed: Option<FileId>,
    listed: bool,
}

/// All processes, ascending by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes {
    all: Vec<Process>,
    pids: Vec<i32>,
    line: Vec<u8>,
    /// Indices into `all`, oldest process first: a parent comes before its children.
    by_age: Vec<u32>,
    changed: bool,
    commands_at: Nanos,
}

impl Processes {
    pub fn invalidate(&mut self) {
        self.changed = true;
        self.commands_at = Nanos::ZERO;
    }

    /// The processes that belong to a workload, and whether by themselves.
    pub fn owned(&self) -> impl Iterator<Item = (i32, WorkloadId, bool)> {
        self.all.iter().filter_map(|process| process.owner.map(|owner| (process.pid, owner, process.explicit)))
    }

    /// Does this process belong to a workload by itself?
    pub fn is_explicit(&self, pid: i32) -> bool {
        let at = self.all.binary_search_by_key(&pid, |process| process.pid);
        at.is_ok_and(|at| self.all[at].explicit)
    }

    /// Scans for new processes, forgets dead ones, and assigns processes to workloads again where something changed.
    /// Claims are the processes that a workload's cgroup holds, ascending.
    pub fn scan(
        &mut self,
        proc: &mut ProcFs,
        workloads: &[(WorkloadId, Resolved)],
        claims: &[(i32, WorkloadId)],
        exempt: &[i32],
        now: Nanos,
    ) -> Result<(), LinuxError> {
        proc.pids(&mut self.pids)?;
        let known = self.all.len();
        for process in &mut self.all {
            process.listed = self.pids.binary_search(&process.pid).is_ok();
        }
        for at in 0..self.pids.len() {
            let pid = self.pids[at];
            if self.all[..known].binary_search_by_key(&pid, |process| process.pid).is_ok() {
                continue;
            }
            if let Some(stat) = proc.stat(pid, pid)? {
                self.all.push(Process {
                    pid,
                    start: stat.start,
                    parent: stat.parent,
                    owner: None,
                    explicit: false,
                    by_command: None,
                    executed: None,
                    listed: true,
                });
            }
        }
        let born = self.all.len() > known;
        let commands_due = self.commands_at == Nanos::ZERO || now >= self.commands_at + COMMANDS_EVERY;
        let reads_commands = workloads.iter().any(|(_, resolved)| !resolved.commands.is_empty());
        if reads_commands && (born || commands_due) {
            let from = if commands_due { 0 } else { known };
            self.match_commands(proc, workloads, exempt, from)?;
            if commands_due {
                self.commands_at = now;
            }
            self.changed = true;
        }
        if born || self.changed {
            self.all.sort_unstable_by_key(|process| process.pid);
            self.decide(workloads, claims);
            self.changed = false;
        }
        // Dead processes are forgotten only now: their children that were created meanwhile have been given to their
        // workload.
        self.all.retain(|process| process.listed);
        Ok(())
    }

    fn match_commands(
        &mut self,
        proc: &mut ProcFs,
        workloads: &[(WorkloadId, Resolved)],
        exempt: &[i32],
        from: usize,
    ) -> Result<(), LinuxError> {
        for process in self.all[from..].iter_mut().filter(|process| !exempt.contains(&process.pid)) {
            let before = process.executed.take();
            process.by_command = None;
            self.line.clear();
            self.line.extend_from_slice(proc.command_line(process.pid)?.unwrap_or_default());
            let commands =
                workloads.iter().flat_map(|(id, resolved)| resolved.commands.iter().map(move |one| (id, one)));
            for (id, command) in commands {
                if line_contains(&self.line, &command.line.text) && command.is_meant(proc, process.pid, before)? {
                    process.by_command = Some(*id);
                    process.executed = command.line.exe.as_ref().and_then(|_| proc.exe(process.pid));
                    break;
                }
            }
        }
        Ok(())
    }

    fn decide(&mut self, workloads: &[(WorkloadId, Resolved)], claims: &[(i32, WorkloadId)]) {
        self.by_age.clear();
        self.by_age.extend(0..self.all.len() as u32);
        self.by_age.sort_unstable_by_key(|&at| (self.all[at as usize].start, self.all[at as usize].pid));
        for at in 0..self.by_age.len() {
            let at = self.by_age[at] as usize;
            let process = self.all[at];
            let by_number = workloads.iter().find(|(_, resolved)| {
                resolved.roots.iter().any(|root| root.tid == process.pid && root.start == process.start)
            });
            let explicit = by_number.map(|(id, _)| *id).or(process.by_command);
            let in_cgroup = || claims.binary_search_by_key(&process.pid, |claim| claim.0).ok().map(|at| claims[at].1);
            let inherited = || {
                let parent = self.all.binary_search_by_key(&process.parent, |process| process.pid).ok()?;
                // A younger process with the parent's number is not the parent.
                let parent = Some(self.all[parent]).filter(|parent| parent.start <= process.start);
                parent.and_then(|parent| parent.owner)
            };
            let kept =
                || process.owner.filter(|owner| !process.explicit && workloads.iter().any(|(id, _)| id == owner));
            self.all[at].owner = explicit.or_else(in_cgroup).or_else(inherited).or_else(kept);
            self.all[at].explicit = explicit.is_some();
        }
    }
}
