//! All processes as services: each belongs to a unit, a container, or the tree of a command; to the kernel, or to Quell.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use quell_model::foreign;

use super::home::{Home, home};
use super::processes::{Process, Processes};
use super::resolve::SHELLS;

/// What holds the processes of a service together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A unit of systemd, by its name.
    Unit(String),
    /// A container, by its id.
    Container(String),
    /// A command and what it started, by the command's process.
    Command(i32),
    /// The kernel's own threads.
    Kernel,
    /// Quell's own processes.
    Quell,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// What holds it together.
    pub kind: Kind,
    /// A name for people; safe to print. Several services may have it.
    pub name: String,
    /// Its processes, ascending.
    pub pids: Vec<i32>,
    /// The user of its oldest process, if that is known.
    pub user: Option<u32>,
}

impl Service {
    /// Is it neither the kernel's nor Quell's?
    #[must_use]
    pub fn is_users(&self) -> bool {
        !matches!(self.kind, Kind::Kernel | Kind::Quell)
    }
}

/// Every process in exactly one service, in the order of the services' kinds.
#[must_use]
pub fn services(processes: &Processes) -> Vec<Service> {
    let mut roots = HashMap::new();
    let mut by_kind: BTreeMap<Kind, Vec<&Process>> = BTreeMap::new();
    for process in processes.iter() {
        by_kind.entry(kind(processes, process, &mut roots)).or_default().push(process);
    }
    by_kind.into_iter().map(|(kind, members)| service(kind, &members)).collect()
}

fn service(kind: Kind, members: &[&Process]) -> Service {
    let first = match kind {
        Kind::Command(root) => members.iter().find(|process| process.pid == root),
        _ => members.iter().min_by_key(|process| (process.start, process.pid)),
    };
    let program = match &kind {
        Kind::Command(_) => first.map_or("", |first| spoken(first, members)),
        _ => first.map_or("", |process| process.program()),
    };
    let name = match &kind {
        Kind::Unit(unit) => unit.strip_suffix(".service").unwrap_or(unit).to_owned(),
        Kind::Container(id) => format!("{program}@{}", id.get(..12).unwrap_or(id)),
        Kind::Command(root) if program.is_empty() => format!("process {root}"),
        Kind::Command(_) => program.to_owned(),
        Kind::Kernel => "the kernel".to_owned(),
        Kind::Quell => "quell".to_owned(),
    };
    Service {
        kind,
        name: foreign::text(&name).into_owned(),
        pids: members.iter().map(|process| process.pid).collect(),
        user: first.and_then(|process| process.uid),
    }
}

/// What starts others and is not what a user means by them.
const STARTERS: [&str; 9] = ["env", "nice", "nohup", "setsid", "sudo", "taskset", "time", "timeout", "unshare"];

/// Commands of Quell's that are work like any other program's: to be measured, not to manage.
const WORK: [&str; 2] = ["antagonist", "load"];

/// The command of Quell's that a process is, where it is work like any other.
fn work(process: &Process) -> Option<&'static str> {
    let word = process.command.split(' ').nth(1).filter(|_| process.is_quells)?;
    WORK.into_iter().find(|work| *work == word)
}

/// Is it Quell itself?
fn is_quells(process: &Process) -> bool {
    process.is_quells && work(process).is_none()
}

/// A program's name; of Quell's own work the command's.
fn called(process: &Process) -> &str {
    work(process).unwrap_or_else(|| process.program())
}

/// What a command is called: where a shell started it, after the process that used most CPU time, which is none.
fn spoken<'a>(root: &'a Process, members: &[&'a Process]) -> &'a str {
    let starts_others =
        |process: &Process| SHELLS.contains(&process.program()) || STARTERS.contains(&process.program());
    let meant = members.iter().filter(|process| starts_others(root) && !starts_others(process));
    // The oldest of those that used as much.
    let meant = meant.min_by_key(|process| (Reverse(process.ticks), process.start, process.pid));
    called(meant.unwrap_or(&root))
}

fn kind(processes: &Processes, process: &Process, roots: &mut HashMap<i32, i32>) -> Kind {
    if process.is_kernels {
        return Kind::Kernel;
    }
    if is_quells(process) {
        return Kind::Quell;
    }
    match home(&process.cgroup) {
        Home::Unit(unit) => Kind::Unit(unit.to_owned()),
        Home::Container(id) => Kind::Container(id.to_owned()),
        Home::Tree => Kind::Command(root(processes, process, roots)),
    }
}

/// The command that a process belongs to, each way up walked once.
fn root(processes: &Processes, process: &Process, known: &mut HashMap<i32, i32>) -> i32 {
    let (mut at, mut way) = (process, HashSet::new());
    let root = loop {
        if let Some(root) = known.get(&at.pid) {
            break *root;
        }
        way.insert(at.pid);
        let parent = processes.get(at.parent).filter(|parent| parent.start <= at.start && !way.contains(&parent.pid));
        match parent.filter(|parent| is_one_command(at, parent)) {
            Some(parent) => at = parent,
            None => break at.pid,
        }
    };
    known.extend(way.into_iter().map(|pid| (pid, root)));
    root
}

/// Does a process belong to the command of its parent? Not where the parent is a login's shell or the first process, nor
/// where a process of another name has a session of its own, as a daemon has.
fn is_one_command(process: &Process, parent: &Process) -> bool {
    let is_commands = parent.pid > 1 && !parent.is_kernels && !is_quells(parent) && home(&parent.cgroup) == Home::Tree;
    let is_shells = parent.session == parent.pid && SHELLS.contains(&parent.comm.as_str());
    let is_daemon = process.session == process.pid && process.comm != parent.comm;
    is_commands && !is_shells && !is_daemon
}

#[cfg(test)]
#[path = "services_tests.rs"]
mod tests;
