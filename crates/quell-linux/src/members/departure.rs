//! A thread's membership over time: there, left, ended.

use std::fmt;
use std::path::Path;

use quell_model::{Nanos, ThreadId, ThreadState};
use serde::{Deserialize, Serialize};

use super::command::user_name;
use super::{Resolved, Thread};
use crate::cgroup::line_contains;
use crate::procfs::{ProcFs, ThreadStat};

/// What became of a thread that a scan did not find again where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is the same thread, and where it was.
    There,
    /// It runs on, outside of its workload.
    Left,
    /// It is gone, whatever has its number now.
    Ended,
}

/// The fate of a thread: whether its workload still has its number, and what runs under its number now (None: nothing).
pub(super) fn fate(known: ThreadId, is_where_it_was: bool, now: Option<&ThreadStat>) -> Fate {
    match now {
        Some(now) if now.start == known.start && now.state != ThreadState::Dead => {
            if is_where_it_was {
                Fate::There
            } else {
                Fate::Left
            }
        }
        _ => Fate::Ended,
    }
}

/// Reason for which a thread is its workload's no more, although it runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// Its user is this one now; `None`: it has the numbers of several.
    User(Option<u32>),
    /// Its command line does not contain the selector's text any more.
    CommandLine,
    /// It executes another file than the selector's.
    Program,
    /// Its cgroup is this one now, below the root of its hierarchy.
    Cgroup(String),
    /// It was the workload's as a child, and its parent runs on outside.
    Parent,
}

impl Why {
    /// What the configuration would have to say, to keep such a thread; None: no line would.
    #[must_use]
    pub fn keep(&self) -> Option<String> {
        match self {
            Why::User(Some(user)) => Some(format!("write user = \"{}\"", user_name(*user))),
            Why::User(None) | Why::Parent => None,
            Why::CommandLine => Some("write a command that the new command line has, too, or select its cgroup".into()),
            Why::Program => Some("leave exe away, or name the file that it executes at the end".into()),
            Why::Cgroup(path) => Some(format!("add {{ cgroup = \"{path}\" }} to match")),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::User(Some(user)) => write!(f, "its user is now {}", user_name(*user))?,
            Why::User(None) => f.write_str("it now has the credentials of several users")?,
            Why::CommandLine => f.write_str("its command line no longer matches")?,
            Why::Program => f.write_str("it now executes another file")?,
            Why::Cgroup(path) => write!(f, "its cgroup is now {path}")?,
            Why::Parent => f.write_str("its parent left")?,
        }
        self.keep().map_or(Ok(()), |line| write!(f, ": {line}"))
    }
}

/// Threads of one process that left their workload and run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// The process.
    pub pid: i32,
    /// One of its threads that left.
    pub thread: ThreadId,
    /// Number of its threads that left for this reason.
    pub threads: u32,
    /// The reason.
    pub why: Why,
    /// Time of the scan that found it, on the host's clock.
    pub at: Nanos,
}

impl Departure {
    /// Does it still run? One that cannot be read is not known to have ended.
    pub(crate) fn runs_on(&self, proc: &mut ProcFs) -> bool {
        let now = proc.stat(self.pid, self.thread.tid);
        now.map_or(true, |now| fate(self.thread, false, now.as_ref()) == Fate::Left)
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Departure { pid, threads, why, .. } = self;
        match threads {
            1 => write!(f, "process {pid} (1 thread): {why}"),
            _ => write!(f, "process {pid} ({threads} threads): {why}"),
        }
    }
}

/// Number of processes whose departure is remembered for each workload: the latest.
const REMEMBERED: usize = 8;

/// A workload's latest departures.
#[derive(Clone, Debug, Default)]
pub(super) struct Departures(Vec<Departure>);

impl Departures {
    /// A thread left.
    pub fn note(&mut self, thread: &Thread, why: Why, at: Nanos) {
        match self.0.iter_mut().find(|known| known.pid == thread.pid && known.why == why) {
            Some(known) => (known.threads, known.thread, known.at) = (known.threads + 1, thread.id, at),
            None => {
                if self.0.len() == REMEMBERED {
                    self.0.remove(0);
                }
                self.0.push(Departure { pid: thread.pid, thread: thread.id, threads: 1, why, at });
            }
        }
    }

    /// A process's thread belongs to the workload again.
    pub fn returned(&mut self, pid: i32) {
        self.0.retain(|known| known.pid != pid);
    }

    /// Forgets processes that have ended; the others.
    pub fn of_the_living(&mut self, proc: &mut ProcFs) -> &[Departure] {
        self.0.retain(|known| known.runs_on(proc));
        &self.0
    }
}

/// The reason for a departure, by what the thread's process is now.
pub(super) fn why(proc: &mut ProcFs, cgroups: &Path, resolved: &Resolved, thread: &Thread) -> Why {
    if thread.explicit && !resolved.commands.is_empty() {
        let user = proc.user(thread.pid).ok().flatten();
        let line = proc.command_line(thread.pid).ok().flatten().unwrap_or_default().to_vec();
        let fits = resolved.commands.iter().find(|command| line_contains(&line, &command.line.text));
        return match fits {
            None => Why::CommandLine,
            Some(command) if !command.is_users(user) => Why::User(user),
            Some(_) => Why::Program,
        };
    }
    if !resolved.groups.is_empty()
        && let Some(path) = proc.cgroup(thread.pid, thread.id.tid)
    {
        let is_own = |group: &std::path::PathBuf| {
            group.strip_prefix(cgroups).is_ok_and(|own| Path::new(&path[1..]).starts_with(own))
        };
        if !resolved.group_paths().any(is_own) {
            return Why::Cgroup(path);
        }
    }
    Why::Parent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(start: u64, state: char) -> ThreadStat {
        let line = format!("7 (x) {state} 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start}{}\n", " 0".repeat(30));
        ThreadStat::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_thread_is_there_left_or_ended() {
        let known = ThreadId { tid: 7, start: 40 };
        for (is_where_it_was, now, expected) in [
            (true, Some(stat(40, 'S')), Fate::There),
            (false, Some(stat(40, 'S')), Fate::Left),
            (false, Some(stat(40, 'Z')), Fate::Ended),
            (true, Some(stat(40, 'Z')), Fate::Ended),
            (true, Some(stat(41, 'R')), Fate::Ended),
            (false, None, Fate::Ended),
        ] {
            assert_eq!(fate(known, is_where_it_was, now.as_ref()), expected, "{is_where_it_was} {now:?}");
        }
    }

    #[test]
    fn a_reason_names_the_line_that_keeps_the_thread() {
        assert_eq!(Why::User(Some(0)).to_string(), "its user is now root: write user = \"root\"");
        assert_eq!(Why::Parent.to_string(), "its parent left");
        assert!(Why::Cgroup("/batch".into()).to_string().contains("{ cgroup = \"/batch\" }"));
    }
}
