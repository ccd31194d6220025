//! Reads and writes places: on the machine, or on a copy of it that a dry run changes instead.

use std::collections::HashMap;
use std::fmt;
use std::io;

use quell_model::{SchedClass, ThreadId, ThreadState};

use super::{Place, Value};
use crate::error::is_gone;
use crate::file::Written;
use crate::procfs::ProcFs;
use crate::resctrl::{self, GroupCalls};
use crate::sched::ThreadCalls;
use crate::{LinuxError, cgroup};

/// Something that has places with values.
pub trait Medium: fmt::Debug {
    /// The value; None if the place is gone.
    ///
    /// # Errors
    /// If it could not be read.
    fn read(&mut self, place: &Place) -> Result<Option<Value>, LinuxError>;

    /// Sets the value.
    ///
    /// # Errors
    /// If the system refused it.
    fn write(&mut self, place: &Place, value: &Value) -> Result<Written, LinuxError>;
}

/// The machine: its files and its threads.
#[derive(Debug)]
pub struct Machine {
    proc: ProcFs,
    calls: Box<dyn ThreadCalls>,
    groups: Box<dyn GroupCalls>,
}

impl Machine {
    /// A machine whose processes are in this procfs and obey these calls.
    #[must_use]
    pub fn new(proc: ProcFs, calls: Box<dyn ThreadCalls>) -> Machine {
        let groups = calls.groups();
        Machine { proc, calls, groups }
    }
}

impl Medium for Machine {
    fn read(&mut self, place: &Place) -> Result<Option<Value>, LinuxError> {
        match *place {
            Place::File(ref path) => Ok(cgroup::read_file(path)?.map(Value::Text)),
            Place::Controllers(ref group) => Ok(cgroup::controllers_given(group)?.map(Value::Text)),
            Place::Affinity(thread) | Place::Class(thread) if !self.calls.exists(thread)? => Ok(None),
            Place::Affinity(thread) => {
                found(self.calls.affinity(thread.tid).map(Value::Cpus), "read the CPUs of", thread)
            }
            Place::Class(thread) => found(self.calls.class(thread.tid).map(Value::Class), "read the class of", thread),
            // Without resctrl there is neither a group nor a place for one.
            Place::Group(ref group) => {
                Ok(group.parent().is_some_and(|root| root.join("info").is_dir()).then(|| Value::There(group.is_dir())))
            }
            Place::Cgroup(ref group) => Ok(group.is_there().map(Value::There)),
            Place::Line(ref line) => Ok(resctrl::read_line(line)?.map(Value::Text)),
            Place::Membership(ref of) if !self.calls.exists(of.thread)? => Ok(None),
            Place::Membership(ref of) => {
                let inside = resctrl::threads(&of.group)?;
                Ok(inside.map(|inside| Value::There(inside.binary_search(&of.thread.tid).is_ok())))
            }
            Place::Autogroup(of) => {
                let found = self.proc.in_session(of.session, of.autogroup)?;
                Ok(found.map(|(_, autogroup)| Value::Text(autogroup.nice.to_string())))
            }
            Place::Stopped(process) => {
                let stat = self.proc.stat(process.tid, process.tid)?.filter(|stat| stat.start == process.start);
                Ok(stat.map(|stat| Value::Stopped(stat.state == ThreadState::Stopped)))
            }
        }
    }

    fn write(&mut self, place: &Place, value: &Value) -> Result<Written, LinuxError> {
        if let Place::Affinity(thread) | Place::Class(thread) | Place::Stopped(thread) = *place
            && !self.calls.exists(thread)?
        {
            return Ok(Written::Vanished);
        }
        match (place, value) {
            (Place::Group(group), &Value::There(there)) => return resctrl::set_group(&*self.groups, group, there),
            (Place::Cgroup(group), &Value::There(there)) => return group.set(there),
            (Place::Line(line), Value::Text(text)) => return resctrl::set_line(&*self.groups, line, text),
            (Place::Membership(of), _) if !self.calls.exists(of.thread)? => return Ok(Written::Vanished),
            (Place::Membership(of), &Value::There(inside)) => return resctrl::set_member(&*self.groups, of, inside),
            _ => {}
        }
        if let (Place::Autogroup(of), Value::Text(nice)) = (place, value) {
            let Some((pid, _)) = self.proc.in_session(of.session, of.autogroup)? else { return Ok(Written::Vanished) };
            let result = self.calls.set_autogroup(pid, of.autogroup, nice);
            return result.map(|()| Written::Done).or_else(|source| match is_gone(&source) {
                true => Ok(Written::Vanished),
                false => {
                    let (op, fix) = ("set the autogroup of", "run as root; see sched(7), the autogroup feature");
                    Err(LinuxError::Thread { op, tid: pid, value: format!("nice {nice}"), source, fix })
                }
            });
        }
        let (result, op, thread) = match (place, value) {
            (Place::File(path), Value::Text(text)) => return cgroup::write_file(path, text),
            (Place::Controllers(group), Value::Text(text)) => return cgroup::give_controllers(group, text),
            (&Place::Affinity(thread), Value::Cpus(cpus)) => {
                (self.calls.set_affinity(thread.tid, cpus), "set the CPUs of", thread)
            }
            (&Place::Class(thread), Value::Class(class)) => {
                (self.calls.set_class(thread.tid, class), "set the class of", thread)
            }
            (&Place::Stopped(process), &Value::Stopped(stopped)) => {
                (self.calls.set_stopped(process, stopped), "stop or continue the process of", process)
            }
            _ => return Err(LinuxError::unsupported(format!("{place} cannot hold '{value}'"), "this is a defect")),
        };
        match result {
            Ok(()) => Ok(Written::Done),
            Err(error) if is_gone(&error) => Ok(Written::Vanished),
            Err(source) => {
                let fix = fix_of(place, value, &source);
                Err(LinuxError::Thread { op, tid: thread.tid, value: value.to_string(), source, fix })
            }
        }
    }
}

fn found(result: io::Result<Value>, op: &'static str, thread: ThreadId) -> Result<Option<Value>, LinuxError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(source) => {
            let fix = "run as root";
            Err(LinuxError::Thread { op, tid: thread.tid, value: "know it".into(), source, fix })
        }
    }
}

fn fix_of(place: &Place, value: &Value, error: &io::Error) -> &'static str {
    let is_deadline = matches!(value, Value::Class(class) if matches!(class.class, SchedClass::Deadline { .. }));
    match (place, error.raw_os_error()) {
        (Place::Class(_), Some(libc::EPERM)) if is_deadline => {
            "for root the kernel accepts deadline threads on whole scheduling domains only: make the CPU an exclusive partition \
             (cpuset.cpus.partition = root) of a cgroup that has the thread and its neighbours below it, or use a kernel with \
             sched_ext"
        }
        (Place::Class(_), Some(libc::EBUSY)) if is_deadline => {
            "deadline threads may have 95 % of a CPU together (kernel.sched_rt_runtime_us), and not leave the CPUs of their \
             partition; request less, or make the CPU an exclusive partition"
        }
        (Place::Affinity(_), Some(libc::EBUSY)) => {
            "a deadline thread's CPU set cannot be smaller than its scheduling domain: make its CPU an exclusive \
             partition (cpuset.cpus.partition = root) of a cgroup that has the thread and its neighbours below it"
        }
        (Place::Class(_), Some(libc::EPERM)) => {
            "run as root or with CAP_SYS_NICE; if it is root already: a cgroup without real-time budget \
             (CONFIG_RT_GROUP_SCHED, cpu.rt_runtime_us) forbids real-time classes"
        }
        (Place::Class(_), Some(libc::EINVAL)) => {
            "this kernel does not support that class or its parameters; choose others"
        }
        (Place::Affinity(_), Some(libc::EINVAL)) => {
            "none of these CPUs is online and in the cpuset of the thread's cgroup (Cpus_allowed_list in \
             /proc/PID/status); choose CPUs of that set or widen it"
        }
        (_, Some(libc::EPERM | libc::EACCES)) => "run as root, or as the owner of the process",
        _ => "see sched_setattr(2) and sched_setaffinity(2)",
    }
}

/// A copy-on-write view: a place is read from the medium below until it is written, and writes never reach that medium.
#[derive(Debug)]
pub struct DryRun<M> {
    below: M,
    changed: HashMap<Place, Value>,
}

impl<M> DryRun<M> {
    /// A copy of this medium.
    pub fn of(below: M) -> DryRun<M> {
        DryRun { below, changed: HashMap::new() }
    }
}

impl<M: Medium> Medium for DryRun<M> {
    fn read(&mut self, place: &Place) -> Result<Option<Value>, LinuxError> {
        match (self.below.read(place)?, self.changed.get(place)) {
            (Some(_), Some(changed)) => Ok(Some(changed.clone())),
            (below, _) => Ok(below),
        }
    }

    fn write(&mut self, place: &Place, value: &Value) -> Result<Written, LinuxError> {
        if self.below.read(place)?.is_none() {
            return Ok(Written::Vanished);
        }
        self.changed.insert(place.clone(), value.clone());
        Ok(Written::Done)
    }
}
