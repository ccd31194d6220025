//! The machine's processes as plain data, read once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::LinuxError;
use crate::procfs::{FileId, ProcFs};

/// A process, and what it says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its parent's number.
    pub parent: i32,
    /// Its session's number.
    pub session: i32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
    /// CPU time that it used, in clock ticks.
    pub ticks: u64,
    /// Its name, which it may choose.
    pub comm: String,
    /// The file that it executes; None: not known.
    pub exe: Option<PathBuf>,
    /// Its command line, its arguments joined by spaces, which it may choose; not made safe to print.
    pub command: String,
    /// Its cgroup, from the root of the hierarchy.
    pub cgroup: String,
    /// Its user, if all of its user numbers agree.
    pub uid: Option<u32>,
    /// Is it a thread of the kernel's?
    pub is_kernels: bool,
    /// Does it execute this program?
    pub is_quells: bool,
}

impl Process {
    /// Has it this name, by its file, its command line or by what it calls itself?
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        let cut = |known: &str| known == name || known.len() == COMM && name.starts_with(known);
        let file = self.exe.as_ref().and_then(|path| path.file_name()).and_then(|file| file.to_str());
        cut(&self.comm) || file == Some(name) || self.own_word() == name
    }

    /// The program's name: of its file, or else its own.
    #[must_use]
    pub fn program(&self) -> &str {
        if self.comm.is_empty() { self.own_word() } else { &self.comm }
    }

    /// The program's name in its command line: `nginx` of `nginx: master process`, `postgres` of `/usr/lib/postgres -D …`.
    fn own_word(&self) -> &str {
        let word = self.command.split(' ').next().unwrap_or_default();
        let word = word.rsplit('/').next().unwrap_or_default();
        word.strip_prefix('-').unwrap_or(word).trim_end_matches(':')
    }
}

/// The kernel cuts names to this length (TASK_COMM_LEN without its end).
const COMM: usize = 15;

/// All processes, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    all: BTreeMap<i32, Process>,
    children: BTreeMap<i32, Vec<i32>>,
}

impl FromIterator<Process> for Processes {
    fn from_iter<T: IntoIterator<Item = Process>>(all: T) -> Processes {
        let all: BTreeMap<i32, Process> = all.into_iter().map(|process| (process.pid, process)).collect();
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for process in all.values() {
            children.entry(process.parent).or_default().push(process.pid);
        }
        Processes { all, children }
    }
}

impl Processes {
    /// Reads them; those that end meanwhile are left out.
    ///
    /// # Errors
    /// If the procfs cannot be listed.
    pub fn read(proc: &mut ProcFs) -> Result<Processes, LinuxError> {
        let own = std::process::id().cast_signed();
        let program = proc.exe(own);
        let mut pids = Vec::new();
        proc.pids(&mut pids)?;
        Ok(pids.into_iter().filter_map(|pid| read_one(proc, pid, program).ok().flatten()).collect())
    }

    /// All of them, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Process> {
        self.all.values()
    }

    /// The process of this number.
    #[must_use]
    pub fn get(&self, pid: i32) -> Option<&Process> {
        self.all.get(&pid)
    }

    /// Its parent, its parent's parent and so on, up to one whose parent is not there.
    pub fn ancestors(&self, pid: i32) -> impl Iterator<Item = &Process> {
        let mut next = self.get(pid);
        let mut left = self.all.len();
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let process = next?;
            next = self.get(process.parent).filter(|parent| parent.start <= process.start);
            next
        })
    }

    /// These processes and all of their descendants, ascending, each once.
    #[must_use]
    pub fn with_descendants(&self, roots: &[i32]) -> Vec<i32> {
        let mut found = Vec::new();
        let mut open: Vec<i32> = roots.to_vec();
        while let Some(pid) = open.pop() {
            if let Err(at) = found.binary_search(&pid) {
                found.insert(at, pid);
                open.extend(self.children.get(&pid).into_iter().flatten());
            }
        }
        found
    }
}

fn read_one(proc: &mut ProcFs, pid: i32, program: Option<FileId>) -> Result<Option<Process>, LinuxError> {
    let Some(stat) = proc.stat(pid, pid)? else { return Ok(None) };
    let (parent, session, start) = (stat.parent, stat.session, stat.start);
    let comm = proc.comm(pid)?.unwrap_or_default();
    let is_kernels = stat.is_kernels;
    let ticks = if is_kernels { 0 } else { proc.ticks(pid)?.unwrap_or(stat.ticks) };
    let mut process = Process { pid, parent, session, start, ticks, comm, is_kernels, ..Process::default() };
    if !stat.is_kernels {
        process.exe = proc.exe_path(pid);
        process.is_quells = program.is_some() && proc.exe(pid) == program;
        process.command = proc.command_line(pid)?.map(|line| String::from_utf8_lossy(line).into()).unwrap_or_default();
        process.uid = proc.user(pid)?;
    }
    let own = proc.systemd_cgroup(pid).filter(|path| *path != "/").map(str::to_owned);
    process.cgroup = own.or_else(|| proc.cgroup(pid, pid)).unwrap_or_else(|| "/".into());
    Ok(Some(process))
}
