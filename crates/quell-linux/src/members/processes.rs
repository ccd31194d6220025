//! The machine's processes and their workloads, for workloads that are selected by process number or command line.

use std::hash::{DefaultHasher, Hash, Hasher};

use quell_model::{Nanos, ThreadState, WorkloadId};

use super::Resolved;
use crate::LinuxError;
use crate::cgroup::line_contains;
use crate::procfs::{FileId, Numbers, ProcFs};

/// Interval of reading command lines again: a process may become another program at any time.
const COMMANDS_EVERY: Nanos = Nanos::from_secs(1);

#[derive(Clone, Copy, Debug)]
struct Process {
    pid: i32,
    start: u64,
    /// The parent when the process was first seen; a process whose parent dies stays in its workload.
    parent: i32,
    owner: Option<WorkloadId>,
    /// The owner before the last decision.
    was: Option<WorkloadId>,
    /// Has nothing been decided about it yet?
    is_new: bool,
    /// Owned by its own number or command line, not by its parent's.
    explicit: bool,
    /// Owned as a child.
    by_descent: bool,
    /// Are its children its workload's, too? Not where a cgroup selects it.
    passes_on: bool,
    by_command: Option<WorkloadId>,
    /// Hash of the text that its command line had.
    matched: u64,
    /// The file that it executed when its command line was found to be meant, if the selector asks for that.
    executed: Option<FileId>,
    /// Has its first thread ended? It is a process as long as others run.
    has_lost_leader: bool,
    /// Is it one of the kernel's own, which have no command line?
    is_kernels: bool,
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
    /// Those of the last decision.
    claims: Vec<(i32, WorkloadId)>,
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
        numbers: &Numbers,
        now: Nanos,
    ) -> Result<(), LinuxError> {
        let known = self.all.len();
        let born = match self.read(proc, workloads, exempt, numbers, now) {
            Ok(()) => self.all.len() > known,
            Err(error) => {
                // Those are new at the next scan, too: nothing is decided about them.
                self.all.truncate(known);
                return Err(error);
            }
        };
        if born || self.changed || self.claims != claims {
            self.claims.clear();
            self.claims.extend_from_slice(claims);
            self.all.sort_unstable_by_key(|process| (process.pid, process.start));
            self.changed = self.decide(workloads, claims);
        }
        // Dead processes are forgotten only now: their children that were created meanwhile have been given to their
        // workload.
        self.all.retain(|process| process.listed);
        Ok(())
    }

    /// Reads what there is: new processes come after the known ones.
    fn read(
        &mut self,
        proc: &mut ProcFs,
        workloads: &[(WorkloadId, Resolved)],
        exempt: &[i32],
        numbers: &Numbers,
        now: Nanos,
    ) -> Result<(), LinuxError> {
        proc.pids(&mut self.pids)?;
        let known = self.all.len();
        for at in 0..known {
            self.look_again(proc, numbers, at)?;
        }
        let mut next = 0;
        for at in 0..self.pids.len() {
            let pid = self.pids[at];
            // Both lists ascend; of one number the one that is listed comes last.
            while next < known && (self.all[next].pid < pid || self.all[next].pid == pid && !self.all[next].listed) {
                next += 1;
            }
            if next < known && self.all[next].pid == pid {
                continue;
            }
            if let Some(stat) = proc.stat(pid, pid)? {
                self.all.push(Process {
                    pid,
                    start: stat.start,
                    parent: stat.parent,
                    owner: None,
                    was: None,
                    is_new: true,
                    explicit: false,
                    by_descent: false,
                    passes_on: true,
                    by_command: None,
                    matched: 0,
                    executed: None,
                    has_lost_leader: stat.state == ThreadState::Dead,
                    is_kernels: stat.is_kernels,
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
        Ok(())
    }

    /// Is a known process still there? Its number is not enough: it may be another's now. Asked of each that a workload owns,
    /// and of the others where the kernel may have given the number out again.
    fn look_again(&mut self, proc: &mut ProcFs, numbers: &Numbers, at: usize) -> Result<(), LinuxError> {
        let process = &mut self.all[at];
        process.listed = self.pids.binary_search(&process.pid).is_ok();
        if process.listed && (process.owner.is_some() || numbers.is_doubtful(process.pid)) {
            match proc.stat(process.pid, process.pid)? {
                Some(stat) if stat.start == process.start => process.has_lost_leader = stat.state == ThreadState::Dead,
                _ => process.listed = false,
            }
        }
        Ok(())
    }

    fn match_commands(
        &mut self,
        proc: &mut ProcFs,
        workloads: &[(WorkloadId, Resolved)],
        exempt: &[i32],
        from: usize,
    ) -> Result<(), LinuxError> {
        let commands =
            || workloads.iter().flat_map(|(id, resolved)| resolved.commands.iter().map(move |one| (*id, one)));
        let asks_for_user = commands().any(|(_, command)| command.asks_for_user());
        let is_program = |process: &&mut Process| !process.is_kernels && !exempt.contains(&process.pid);
        for process in self.all[from..].iter_mut().filter(is_program) {
            if process.has_lost_leader || !process.listed {
                // Nothing says now what it executes, though its other threads may run on: it is what it was, unless these are
                // another user's by now.
                let others = asks_for_user && process.listed && process.by_command.is_some();
                let user = if others { proc.user_of_others(process.pid)? } else { None };
                // What cannot be read says nothing.
                let mut same = commands().filter(|(_, command)| {
                    hash(&command.line.text) == process.matched && (user.is_none() || command.is_users(user))
                });
                process.by_command = process.by_command.and_then(|_| same.next()).map(|(id, _)| id);
                continue;
            }
            let before = process.executed.take();
            process.by_command = None;
            let user = if asks_for_user { proc.user(process.pid)? } else { None };
            let mut is_read = false;
            for (id, command) in commands().filter(|(_, command)| command.is_users(user)) {
                if !std::mem::replace(&mut is_read, true) {
                    self.line.clear();
                    self.line.extend_from_slice(proc.command_line(process.pid)?.unwrap_or_default());
                }
                if line_contains(&self.line, &command.line.text) && command.is_executed(proc, process.pid, before) {
                    (process.by_command, process.matched) = (Some(id), hash(&command.line.text));
                    process.executed = command.line.exe.as_ref().and_then(|_| proc.exe(process.pid));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Gives every process its owner. True if that is to be done at the next scan again: the child of a process that has just
    /// left may have its values, so that it is its workload's until then.
    fn decide(&mut self, workloads: &[(WorkloadId, Resolved)], claims: &[(i32, WorkloadId)]) -> bool {
        let mut again = false;
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
            self.all[at].was = process.owner;
            let in_cgroup = || claims.binary_search_by_key(&process.pid, |claim| claim.0).ok().map(|at| claims[at].1);
            let kept = || process.owner.filter(|owner| workloads.iter().any(|(id, _)| id == owner));
            // One that has ended counts for those that are seen for the first time.
            let parent = self.parent_of(&process).filter(|parent| parent.listed || process.is_new);
            let mut by_descent = || match parent {
                // What has ended was its workload's, for the children that it had.
                _ if !process.listed => kept(),
                // A cgroup selects what is in it alone: a child elsewhere is not its workload's.
                Some(parent) if !parent.passes_on => None,
                Some(parent) => parent.owner.or_else(|| {
                    let of_before =
                        parent.was.filter(|was| process.is_new && workloads.iter().any(|(id, _)| id == was));
                    again |= of_before.is_some();
                    of_before
                }),
                // What has lost its parent stays where it was.
                None => kept().filter(|_| process.by_descent),
            };
            let by_itself = explicit.or_else(|| in_cgroup().filter(|_| process.listed));
            self.all[at].owner = by_itself.or_else(&mut by_descent);
            self.all[at].explicit = explicit.is_some();
            self.all[at].by_descent = by_itself.is_none();
            self.all[at].passes_on = by_itself.is_none() || explicit.is_some();
            self.all[at].is_new = false;
        }
        again
    }

    /// The parent that a process had when it was first seen, if it is known still.
    fn parent_of(&self, process: &Process) -> Option<Process> {
        // A younger process with the parent's number is not the parent.
        let is_before = |other: &Process| (other.pid, other.start) <= (process.parent, process.start);
        let at = self.all.partition_point(is_before).checked_sub(1)?;
        Some(self.all[at]).filter(|parent| parent.pid == process.parent)
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
