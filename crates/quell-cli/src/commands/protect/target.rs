//! What the words on the command line mean on this machine.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use quell_linux::procfs::ProcFs;
use quell_linux::target::{Asker, Found, Miss, Processes, What, overflow_user, resolve};
use quell_linux::{Census, Roots, cgroup, mounted_hierarchies, user_name};
use quell_model::{Selector, ThreadId, foreign};
use quell_scrape::Source;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Matches in a list.
const LISTED: usize = 10;

/// What is to be protected.
pub struct Subject {
    /// The command that asks.
    pub verb: &'static str,
    /// Its name; safe to print.
    pub name: String,
    /// Words for a command line that mean it; safe to print.
    pub words: String,
    /// The matches of the targets.
    pub found: Vec<Found>,
    /// Their selectors.
    pub selectors: Vec<Selector>,
    /// The program of the first one.
    pub program: Program,
    /// The page of its own histogram, where an agent has one in its configuration.
    pub histogram: Option<Source>,
}

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// What its command line holds of it: its file's path, or else its name.
    pub command: String,
    /// The whole command line, its arguments joined by spaces.
    pub line: String,
    /// The user's number.
    pub uid: Option<u32>,
}

impl Subject {
    /// Finds them among what runs now.
    ///
    /// # Errors
    /// If one means nothing, or several.
    pub fn find(verb: &'static str, targets: &[String]) -> Result<Subject> {
        Subject::among(verb, targets, &Processes::read(&mut ProcFs::open(&Roots::default().proc)?)?)
    }

    /// Finds them among these.
    ///
    /// # Errors
    /// As [`Subject::find`].
    pub fn among(verb: &'static str, targets: &[String], processes: &Processes) -> Result<Subject> {
        let roots = Roots::default();
        let mut proc = ProcFs::open(&roots.proc)?;
        let asker = asker(processes);
        let mut found: Vec<Found> = Vec::new();
        for target in targets {
            let one = match resolve(processes, target, &asker) {
                Ok(one) => one,
                Err(Miss::Nothing(why)) => bail!("{}", process_of_thread(&mut proc, verb, target).unwrap_or(why)),
                Err(Miss::Several(several)) => bail!("{}", choice(verb, target, &several)),
            };
            if !found.iter().any(|other| other.what == one.what && other.roots == one.roots) {
                found.push(one);
            }
        }
        let is_there = |selector: &Selector| {
            cgroup::named(&roots.cgroup, selector).is_ok_and(|found| found.is_some_and(|found| !found.is_empty()))
        };
        let selectors = found.iter().flat_map(|one| one.selectors(&is_there)).collect();
        let words = found.iter().map(Found::target).collect::<Vec<_>>().join(" ");
        let first = &found[0];
        let root = first.roots.first().and_then(|root| processes.get(root.tid));
        let program = root.map_or_else(Program::default, |root| {
            let path = root.exe.as_ref().and_then(|exe| exe.to_str()).filter(|path| root.command.contains(path));
            let name = root.program().to_owned();
            let command = path.map_or_else(|| name.clone(), str::to_owned);
            Program { command, name, line: root.command.clone(), uid: root.uid }
        });
        Ok(Subject { verb, name: first.name.clone(), words, selectors, program, found, histogram: None })
    }

    /// A workload that an agent has found.
    #[must_use]
    pub fn of_workload(verb: &'static str, name: &str, selectors: Vec<Selector>) -> Subject {
        let name = foreign::text(name).into_owned();
        let (words, program) = (format!("--workload {name}"), Program::default());
        Subject { verb, name, words, found: Vec::new(), selectors, program, histogram: None }
    }

    /// Is it no unit, container or cgroup, but single processes?
    pub fn is_of_processes(&self) -> bool {
        self.found.iter().any(|found| found.what == What::Tree)
    }

    /// The processes that the others descend from.
    pub fn roots(&self) -> impl Iterator<Item = ThreadId> {
        self.found.iter().flat_map(|found| found.roots.iter().copied())
    }

    /// Handles of those, which remain theirs when their numbers are given out again.
    ///
    /// # Errors
    /// If one has ended.
    pub fn handles(&self) -> Result<Vec<OwnedFd>> {
        let mut proc = ProcFs::open(&Roots::default().proc)?;
        let mut open = |root: ThreadId| {
            let number = Pid::from_raw(root.tid).context("a process has a number above 0")?;
            let handle = pidfd_open(number, PidfdFlags::empty()).ok();
            // It is the same process if it still has the start time with the handle open.
            let is_same = proc.stat(root.tid, root.tid)?.is_some_and(|stat| stat.start == root.start);
            handle.filter(|_| is_same).with_context(|| self.ended())
        };
        self.roots().map(&mut open).collect()
    }

    /// Handles of what is in its unit, container or cgroup now: a service may go on with other processes than it had (a new
    /// master takes over at an upgrade in place). None are left of single processes.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub fn successors(&self) -> Result<Vec<OwnedFd>> {
        if self.is_of_processes() {
            return Ok(Vec::new());
        }
        let mut census = Census::open(&Roots::default().proc, mounted_hierarchies(), vec![self.selectors.clone()])?;
        let processes: BTreeSet<i32> = census.scan()?.iter().map(|thread| thread.pid).collect();
        let handle = |pid: i32| pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok();
        Ok(processes.into_iter().filter_map(handle).collect())
    }

    /// It has ended.
    pub fn ended(&self) -> String {
        let again = if self.is_of_processes() { &self.program.name } else { &self.words };
        let again = foreign::text(again);
        format!("{} has ended or was restarted; once it runs: quell {} {again}", self.name, self.verb)
    }
}

/// This process's users, and the processes that started it.
fn asker(processes: &Processes) -> Asker {
    let own = std::process::id().cast_signed();
    let before_sudo = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let users = [Some(rustix::process::geteuid().as_raw()), before_sudo].into_iter().flatten().collect();
    let line = processes.ancestors(own).map(|process| process.pid).filter(|pid| *pid > 1).collect();
    Asker { users, line, overflow_user: overflow_user(&Roots::default().proc) }
}

/// A number may be that of a thread.
fn process_of_thread(proc: &mut ProcFs, verb: &str, target: &str) -> Option<String> {
    let tid = target.strip_prefix("pid:").unwrap_or(target).parse().ok().filter(|tid| *tid > 0)?;
    let process = proc.process_of(tid).ok().flatten().filter(|process| *process != tid)?;
    Some(format!("{tid} is a thread of process {process}: run `quell {verb} {process}`"))
}

/// The matches, a line each with the command to run.
fn choice(verb: &str, target: &str, found: &[Found]) -> String {
    let name = foreign::text(target);
    let mut text = match found {
        [only] => {
            let user = only.user.map_or_else(|| "several users".into(), user_name);
            format!(
                "the only '{name}' here belongs to user {user}, and any user can give a program that name; if it is meant:"
            )
        }
        _ => format!("'{name}' matches {} services here; choose one:", found.len()),
    };
    let width = found.iter().take(LISTED).map(|one| one.target().chars().count()).max().unwrap_or(0);
    for one in found.iter().take(LISTED) {
        let _ = write!(text, "\n  quell {verb} {:width$}  # {}", one.target(), one.in_words());
    }
    if found.len() > LISTED {
        let _ = write!(text, "\n  and {} more: see pgrep -a {name}", found.len() - LISTED);
    }
    text
}
