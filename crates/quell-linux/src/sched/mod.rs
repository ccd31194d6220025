//! System calls about single threads and processes: affinity, scheduling class, stop and continue.

mod attr;
mod cookies;
mod kernel;
mod nice;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};

use quell_model::{CpuSet, SchedClass, ThreadId};
use serde::{Deserialize, Serialize};

use crate::LinuxError;
use crate::procfs::Autogroup;
use crate::resctrl::{GroupCalls, KernelGroups};

pub use cookies::{Cookied, all_cookied, first_cookied};
pub use kernel::Kernel;
pub use nice::{nice_of_weight, weight_of_nice};

/// A thread's scheduling class, and its children's.
///
/// Quell sets SCHED_FLAG_RESET_ON_FORK with every real-time class (the kernel demands it for SCHED_DEADLINE): a child
/// starts as SCHED_OTHER, so that threads cannot multiply at real-time priority, and none that is created after Quell's
/// death stays there. The host gives a new thread of the workload its class at the next scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadClass {
    /// The class and its parameters.
    pub class: SchedClass,
    /// Children start as SCHED_OTHER (negative nice values become 0).
    pub reset_on_fork: bool,
}

impl ThreadClass {
    /// The class as Quell sets it.
    #[must_use]
    pub fn of(class: SchedClass) -> ThreadClass {
        ThreadClass { class, reset_on_fork: class.is_real_time() }
    }

    /// Is this the same class, as far as can be known? A slice that the kernel chose reads like one that was set, so
    /// slices count only where `other` has one of its own.
    #[must_use]
    pub fn is_like(&self, other: &ThreadClass) -> bool {
        match (self.class, other.class) {
            (SchedClass::Fair { nice: ours, .. }, SchedClass::Fair { nice: theirs, slice: None }) => ours == theirs,
            (ours, theirs) => ours == theirs,
        }
    }

    /// Is it what was written, as far as the kernel keeps that?
    #[must_use]
    pub fn is_as_written(&self, written: &ThreadClass) -> bool {
        self.is_like(written) || self.is_without_slice_of(written)
    }

    /// Is it this class on a kernel before 6.12, which takes a slice and forgets it?
    pub(crate) fn is_without_slice_of(&self, written: &ThreadClass) -> bool {
        match (self.class, written.class) {
            (SchedClass::Fair { nice: ours, slice: None }, SchedClass::Fair { nice: theirs, .. }) => ours == theirs,
            _ => false,
        }
    }
}

impl fmt::Display for ThreadClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.class.fmt(f)?;
        f.write_str(if self.reset_on_fork { " (reset on fork)" } else { "" })
    }
}

/// The calls, so that trees of plain files can have threads too. An error of ESRCH means that the thread vanished.
pub trait ThreadCalls: fmt::Debug + Send {
    /// Changes of resctrl's groups on the same machine.
    fn groups(&self) -> Box<dyn GroupCalls> {
        Box::new(KernelGroups)
    }

    /// Sets the nice value of this autogroup, that of a process's session.
    ///
    /// # Errors
    /// The system's; ESRCH if the process has left it.
    fn set_autogroup(&self, pid: i32, autogroup: i64, nice: &str) -> io::Result<()> {
        // The open file stays this process's when its number is given out again.
        let mut file = File::options().read(true).write(true).open(format!("/proc/{pid}/autogroup"))?;
        let mut text = [0; 64];
        let read = file.read(&mut text)?;
        if Autogroup::parse(&text[..read]).is_none_or(|found| found.id != autogroup) {
            return Err(rustix::io::Errno::SRCH.into());
        }
        file.write_all(nice.as_bytes())
    }

    /// Is there a thread of this number and start time? A number may have been given to another thread.
    ///
    /// # Errors
    /// If it could not be determined.
    fn exists(&mut self, thread: ThreadId) -> Result<bool, LinuxError>;

    /// The CPUs that a thread may run on, also those that are offline.
    ///
    /// # Errors
    /// The system's.
    fn affinity(&self, tid: i32) -> io::Result<CpuSet>;

    /// Sets the CPUs that a thread may run on.
    ///
    /// # Errors
    /// The system's.
    fn set_affinity(&mut self, tid: i32, cpus: &CpuSet) -> io::Result<()>;

    /// A thread's scheduling class.
    ///
    /// # Errors
    /// The system's.
    fn class(&self, tid: i32) -> io::Result<ThreadClass>;

    /// Sets a thread's scheduling class.
    ///
    /// # Errors
    /// The system's.
    fn set_class(&mut self, tid: i32, class: &ThreadClass) -> io::Result<()>;

    /// Stops or continues a process.
    ///
    /// # Errors
    /// The system's.
    fn set_stopped(&mut self, process: ThreadId, stopped: bool) -> io::Result<()>;
}
