//! Writes as plain data: each has its place, the value before and the value after. A write's inverse is known before
//! the write is made.

mod journal;
mod ledger;
mod machine;
mod restore;
mod transaction;

use std::fmt;
use std::path::PathBuf;

use quell_model::{CpuSet, SchedClass, ThreadId, WorkloadId, foreign};
use serde::{Deserialize, Serialize};

use crate::LinuxError;
use crate::cgroup::OwnGroup;
use crate::resctrl::{Line, Membership};
use crate::sched::ThreadClass;

pub use journal::{Conflict, Fate, Journal, NoJournal};
pub(crate) use ledger::Ledger;
pub use machine::{DryRun, Machine, Medium};
pub use restore::{Left, RestoreReport, Touched, restore};
pub use transaction::carry_out;

pub use crate::file::Written;

/// Something that has one value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A pseudo-file's text.
    File(PathBuf),
    /// The controllers that a cgroup gives to its children: its file `cgroup.subtree_control`.
    Controllers(PathBuf),
    /// The CPUs that a thread may run on.
    Affinity(ThreadId),
    /// A thread's scheduling class.
    Class(ThreadId),
    /// Is a process stopped? Named by its first thread.
    Stopped(ThreadId),
    /// Is a resctrl control group there?
    Group(PathBuf),
    /// Is a cgroup of Quell's own there?
    Cgroup(OwnGroup),
    /// A line of a control group's `schemata`, in one domain.
    Line(Line),
    /// Is a thread in a control group?
    Membership(Membership),
    /// The nice value of a session's autogroup.
    Autogroup(Session),
}

/// A session, and its autogroup: the number of a session may be another one's later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Session {
    /// Its number, that of its leader.
    pub session: i32,
    /// The number of its autogroup.
    pub autogroup: i64,
}

impl Place {
    /// The thread that it is a place of; of a process: its first.
    pub(crate) fn thread(&self) -> Option<ThreadId> {
        match self {
            Place::Affinity(thread) | Place::Class(thread) | Place::Stopped(thread) => Some(*thread),
            Place::Membership(of) => Some(of.thread),
            Place::File(_)
            | Place::Controllers(_)
            | Place::Group(_)
            | Place::Cgroup(_)
            | Place::Line(_)
            | Place::Autogroup(_) => None,
        }
    }
}

/// A value of a [`Place`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// Of a file, without surrounding white space; CPU lists in the kernel's form. Of controllers: their names, sorted.
    Text(String),
    /// Of an affinity.
    Cpus(CpuSet),
    /// Of a scheduling class.
    Class(ThreadClass),
    /// Of a process that is stopped, or not.
    Stopped(bool),
    /// Of a control group that is there, or not; of a thread that is in it, or not.
    There(bool),
}

/// One change of one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// The workload that it is for; None: the machine.
    pub workload: Option<WorkloadId>,
    /// The place.
    pub place: Place,
    /// The value to restore in the end: the original one from before Quell's first write. For a thread that was created
    /// under a value of Quell's: its workload's original value.
    pub origin: Value,
    /// The present value, which is restored if the plan is taken back.
    pub before: Value,
    /// The new value.
    pub after: Value,
}

/// The medium of writes, its journal, and the writes so far.
#[derive(Debug)]
pub(crate) struct Writes {
    pub medium: Box<dyn Medium + Send>,
    pub journal: Box<dyn Journal>,
    pub ledger: Ledger,
}

impl Writes {
    /// Writes to this medium, without a journal.
    pub fn to(medium: Box<dyn Medium + Send>) -> Writes {
        Writes { medium, journal: Box::new(NoJournal), ledger: Ledger::default() }
    }

    /// Makes writes, all or none, and remembers those that were made, which it returns.
    pub fn make<'a>(&mut self, writes: &'a [Write]) -> Result<impl Iterator<Item = &'a Write>, LinuxError> {
        let made = match carry_out(&mut *self.medium, &mut *self.journal, writes) {
            Ok(made) => made,
            Err(error) => {
                if matches!(error, LinuxError::Rollback { .. }) {
                    self.keep_what_is_left(writes);
                }
                return Err(error);
            }
        };
        let done = writes.iter().zip(made).filter_map(|(write, written)| (written == Written::Done).then_some(write));
        for write in done.clone() {
            self.ledger.note(write);
            if let (Place::Group(group), Value::There(false)) = (&write.place, &write.after) {
                self.ledger.forget_control_group(group);
            }
        }
        Ok(done)
    }
}

impl Writes {
    /// A plan that could not be taken back: what it left is put back in the end.
    fn keep_what_is_left(&mut self, writes: &[Write]) {
        for write in writes.iter().filter(|write| write.before != write.after) {
            if self.medium.read(&write.place).is_ok_and(|now| now.is_some_and(|now| write.after.is_still(&now))) {
                self.ledger.note(write);
            }
        }
    }
}

impl Write {
    /// The write that takes this one back.
    #[must_use]
    pub fn inverse(&self) -> Write {
        Write { before: self.after.clone(), after: self.before.clone(), ..self.clone() }
    }
}

impl Value {
    /// Is this what a thread has whose creator had the value, which the kernel does not hand on?
    pub(crate) fn is_reset_to(&self, now: &Value) -> bool {
        matches!((self, now), (Value::Class(written), Value::Class(now))
            if written.reset_on_fork && now.is_like(&ThreadClass::of(SchedClass::NORMAL)))
    }

    /// Does the place still have this value of Quell's, as far as can be known?
    pub(crate) fn is_still(&self, now: &Value) -> bool {
        match (now, self) {
            (Value::Class(now), Value::Class(written)) => now.is_like(written) || now.is_without_slice_of(written),
            _ => self.is_text_of(now),
        }
    }

    /// Is `now` this value, or a partition of this kind that the kernel has ended, and says why: `root invalid (…)`?
    #[must_use]
    pub fn is_text_of(&self, now: &Value) -> bool {
        let is_ended = match (now, self) {
            (Value::Text(now), Value::Text(written)) => {
                !written.is_empty()
                    && now.strip_prefix(written.as_str()).is_some_and(|rest| rest.starts_with(" invalid"))
            }
            _ => false,
        };
        is_ended || now == self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => write!(f, "{}", foreign::path(path)),
            Place::Controllers(cgroup) => write!(f, "{}", foreign::path(&cgroup.join("cgroup.subtree_control"))),
            Place::Affinity(thread) => write!(f, "thread {} CPUs", thread.tid),
            Place::Class(thread) => write!(f, "thread {} class", thread.tid),
            Place::Stopped(process) => write!(f, "process {} state", process.tid),
            Place::Group(group) => write!(f, "{}", foreign::path(group)),
            Place::Cgroup(group) => write!(f, "{}", foreign::path(&group.path)),
            Place::Line(line) => {
                write!(f, "{} {}:{}", foreign::path(&line.group.join("schemata")), line.resource, line.domain)
            }
            Place::Membership(of) => write!(f, "thread {} in {}", of.thread.tid, foreign::path(&of.group)),
            Place::Autogroup(of) => write!(f, "session {} nice value of its autogroup", of.session),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) if text.is_empty() => f.write_str("(empty)"),
            Value::Text(text) => f.write_str(text),
            Value::Cpus(cpus) => write!(f, "{cpus}"),
            Value::Class(class) => write!(f, "{class}"),
            Value::Stopped(true) => f.write_str("stopped"),
            Value::Stopped(false) => f.write_str("running"),
            Value::There(true) => f.write_str("there"),
            Value::There(false) => f.write_str("not there"),
        }
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.place, self.before, self.after)
    }
}
