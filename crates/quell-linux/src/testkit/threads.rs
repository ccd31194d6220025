//! Threads of a fake machine: system calls change their files.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use quell_model::{CpuSet, SchedClass, ThreadId};

use super::FakeGroups;
use rustix::io::Errno;

use crate::LinuxError;
use crate::procfs::ThreadStat;
use crate::resctrl::GroupCalls;
use crate::sched::{ThreadCalls, ThreadClass};

/// Calls on the threads of a [`super::FakeTree`]. Classes show in `stat` as on a real machine; affinities stand in a
/// file `affinity` beside it. Slices and deadlines do not stand in `stat` and are forgotten.
#[derive(Debug)]
pub struct FakeThreads {
    proc: PathBuf,
    online: CpuSet,
    /// Known paths of threads: the kernel finds them at once, a scan of all processes does not.
    known: RefCell<HashMap<i32, PathBuf>>,
    groups: FakeGroups,
}

impl FakeThreads {
    pub(super) fn new(proc: PathBuf, online: CpuSet, groups: FakeGroups) -> FakeThreads {
        FakeThreads { proc, online, known: RefCell::default(), groups }
    }

    /// A thread's directory; threads other than the first stand below their process.
    fn directory(&self, tid: i32) -> io::Result<PathBuf> {
        let own = self.proc.join(format!("{tid}/task/{tid}"));
        if own.is_dir() {
            return Ok(own);
        }
        if let Some(known) = self.known.borrow().get(&tid).filter(|known| known.is_dir()) {
            return Ok(known.clone());
        }
        let processes = fs::read_dir(&self.proc)?.filter_map(Result::ok);
        let mut threads = processes.map(|process| process.path().join(format!("task/{tid}")));
        let found = threads.find(|path| path.is_dir()).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        self.known.borrow_mut().insert(tid, found.clone());
        Ok(found)
    }

    /// The fields of `stat` from the state on: field 3 of the manual is index 0.
    fn fields(&self, tid: i32) -> io::Result<(PathBuf, String, Vec<String>)> {
        let path = self.directory(tid)?.join("stat");
        let text = fs::read_to_string(&path)?;
        let (name, rest) = text.rsplit_once(") ").ok_or_else(|| io::Error::other("no stat line"))?;
        Ok((path, format!("{name}) "), rest.split_whitespace().map(str::to_owned).collect()))
    }

    fn change(&self, tid: i32, changes: &[(usize, String)]) -> io::Result<()> {
        let (path, name, mut fields) = self.fields(tid)?;
        changes.iter().for_each(|(field, value)| fields[field - 3].clone_from(value));
        fs::write(path, format!("{name}{}\n", fields.join(" ")))
    }
}

impl ThreadCalls for FakeThreads {
    fn groups(&self) -> Box<dyn GroupCalls> {
        Box::new(self.groups.clone())
    }

    fn set_autogroup(&self, pid: i32, autogroup: i64, nice: &str) -> io::Result<()> {
        let path = self.proc.join(format!("{pid}/autogroup"));
        let name = format!("/autogroup-{autogroup} ");
        if !fs::read_to_string(&path)?.starts_with(&name) {
            return Err(Errno::SRCH.into());
        }
        fs::write(path, format!("{name}nice {nice}\n"))
    }

    fn exists(&mut self, thread: ThreadId) -> Result<bool, LinuxError> {
        Ok(self.fields(thread.tid).is_ok_and(|(_, _, fields)| fields[22 - 3] == thread.start.to_string()))
    }

    fn affinity(&self, tid: i32) -> io::Result<CpuSet> {
        match fs::read_to_string(self.directory(tid)?.join("affinity")) {
            Ok(text) => text.parse().map_err(io::Error::other),
            Err(_) => Ok(self.online),
        }
    }

    fn set_affinity(&mut self, tid: i32, cpus: &CpuSet) -> io::Result<()> {
        if cpus.intersection(&self.online).is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        fs::write(self.directory(tid)?.join("affinity"), cpus.to_string())
    }

    fn class(&self, tid: i32) -> io::Result<ThreadClass> {
        let text = fs::read(self.directory(tid)?.join("stat"))?;
        let stat = ThreadStat::parse(&text).ok_or_else(|| io::Error::other("no stat line"))?;
        Ok(ThreadClass::of(stat.class))
    }

    fn set_class(&mut self, tid: i32, class: &ThreadClass) -> io::Result<()> {
        let (policy, nice, priority) = match class.class {
            SchedClass::Fair { nice, .. } => (libc::SCHED_OTHER, nice, 0),
            SchedClass::Batch { nice } => (libc::SCHED_BATCH, nice, 0),
            SchedClass::Idle => (libc::SCHED_IDLE, 0, 0),
            SchedClass::Fifo { priority } => (libc::SCHED_FIFO, 0, priority),
            SchedClass::RoundRobin { priority } => (libc::SCHED_RR, 0, priority),
            SchedClass::Deadline { .. } => (libc::SCHED_DEADLINE, 0, 0),
        };
        self.change(tid, &[(19, nice.to_string()), (40, priority.to_string()), (41, policy.to_string())])
    }

    fn set_stopped(&mut self, process: ThreadId, stopped: bool) -> io::Result<()> {
        self.change(process.tid, &[(3, if stopped { "T" } else { "S" }.into())])
    }
}
