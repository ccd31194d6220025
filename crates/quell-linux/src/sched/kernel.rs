//! The running kernel's threads.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::sched_attr;
use quell_model::{CpuId, CpuSet, MAX_CPUS, Nanos, ThreadId};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{ThreadCalls, ThreadClass, attr};
use crate::LinuxError;
use crate::clock;
use crate::procfs::ProcFs;
use crate::procfs::has_ended;

/// The running kernel.
#[derive(Debug)]
pub struct Kernel {
    proc: ProcFs,
    /// The value that a fair thread without a slice of its own reads: this thread's at the start.
    kernel_slice: u64,
    /// The time in ns at which it was read whether a CPU is offline, doubled; odd: one was.
    some_offline: AtomicU64,
}

/// Whether a CPU is offline is read again after this.
const OFFLINE_EVERY: Nanos = Nanos::from_millis(100);

impl Kernel {
    /// The running kernel. The calling thread must have no slice of its own.
    ///
    /// # Errors
    /// If `/proc` cannot be opened.
    pub fn new() -> Result<Kernel, LinuxError> {
        let kernel_slice = get(0).map_or(0, |attr| attr.sched_runtime);
        Ok(Kernel { proc: ProcFs::open(Path::new("/proc"))?, kernel_slice, some_offline: AtomicU64::new(0) })
    }

    fn is_some_cpu_offline(&self) -> bool {
        let (known, now) = (self.some_offline.load(Ordering::Relaxed), clock::now());
        if known != 0 && now < Nanos(known / 2) + OFFLINE_EVERY {
            return known % 2 == 1;
        }
        // Those that a machine could have, and has not, are no matter.
        let read = |name| fs::read_to_string(format!("/sys/devices/system/cpu/{name}")).unwrap_or_default();
        let is_some = read("present") != read("online");
        self.some_offline.store(now.0 * 2 + u64::from(is_some), Ordering::Relaxed);
        is_some
    }

    /// Can threads have slices of their own here (kernel 6.12 on)?
    #[must_use]
    pub fn has_slices(&self) -> bool {
        self.kernel_slice != 0
    }

    /// Makes the kernel take the thread, if it is a normal one that waits for a CPU, out of its queue and enqueue it
    /// anew. Nothing else changes, and nothing is left to restore if this process ends meanwhile: a slice of its own is
    /// longer by a nanosecond for a moment.
    ///
    /// # Errors
    /// The system call's.
    pub fn enqueue_anew(&self, tid: i32) -> io::Result<()> {
        let before = get(tid)?;
        if before.sched_policy != libc::SCHED_OTHER as u32 {
            return Ok(());
        }
        set(tid, &self.nudged(before))?;
        if get(tid)?.sched_runtime == before.sched_runtime { Ok(()) } else { set(tid, &before) }
    }

    /// The kernel ignores a call that changes nothing. It takes "a slice that the kernel chooses" for a change.
    fn nudged(&self, before: sched_attr) -> sched_attr {
        let is_own = before.sched_runtime != 0 && before.sched_runtime != self.kernel_slice;
        sched_attr { sched_runtime: if is_own { before.sched_runtime + 1 } else { 0 }, ..before }
    }
}

impl ThreadCalls for Kernel {
    fn exists(&mut self, thread: ThreadId) -> Result<bool, LinuxError> {
        // A thread's own number names its process's directory too (it is only not listed).
        Ok(self.proc.stat(thread.tid, thread.tid)?.is_some_and(|stat| stat.start == thread.start))
    }

    fn affinity(&self, tid: i32) -> io::Result<CpuSet> {
        if self.is_some_cpu_offline() {
            // sched_getaffinity(2) leaves offline CPUs out, which a thread that is put back may use when they come.
            if has_ended(Path::new("/proc"), tid) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            return allowed(&fs::read_to_string(format!("/proc/{tid}/status"))?);
        }
        let mut mask = [0u64; MAX_CPUS / 64];
        // SAFETY: the kernel writes at most the given number of bytes into the mask, which lives during the call.
        let length = unsafe { libc::sched_getaffinity(tid, size_of_val(&mask), mask.as_mut_ptr().cast()) };
        if length < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((0..MAX_CPUS as u32).filter(|cpu| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1).map(CpuId).collect())
    }

    fn set_affinity(&mut self, tid: i32, cpus: &CpuSet) -> io::Result<()> {
        let mut mask = [0u64; MAX_CPUS / 64];
        cpus.iter().for_each(|cpu| mask[cpu.index() / 64] |= 1 << (cpu.index() % 64));
        // SAFETY: the kernel reads the given number of bytes from the mask, which lives during the call.
        result(unsafe { libc::sched_setaffinity(tid, size_of_val(&mask), mask.as_ptr().cast()) }.into())
    }

    fn class(&self, tid: i32) -> io::Result<ThreadClass> {
        attr::decode(&get(tid)?, self.kernel_slice)
    }

    fn set_class(&mut self, tid: i32, class: &ThreadClass) -> io::Result<()> {
        set(tid, &attr::encode(class))
    }

    fn set_stopped(&mut self, process: ThreadId, stopped: bool) -> io::Result<()> {
        let gone = || io::Error::from(Errno::SRCH);
        let pid = Pid::from_raw(process.tid).ok_or_else(gone)?;
        let held = pidfd_open(pid, PidfdFlags::empty())?;
        // What has the number now is held: is it still the process that was meant?
        let exists = self.exists(process).map_err(|error| io::Error::other(error.to_string()))?;
        if !exists {
            return Err(gone());
        }
        Ok(pidfd_send_signal(&held, if stopped { Signal::STOP } else { Signal::CONT })?)
    }
}

/// The CPUs in a thread's status file.
fn allowed(status: &str) -> io::Result<CpuSet> {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.and_then(|list| list.trim().parse().ok())
        .ok_or_else(|| io::Error::other("its status has no Cpus_allowed_list"))
}

fn get(tid: i32) -> io::Result<sched_attr> {
    let mut attr = attr::empty();
    // SAFETY: the kernel writes at most the given number of bytes into the structure, which lives during the call.
    result(unsafe {
        libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size_of::<sched_attr>() as u32, 0u32)
    })?;
    Ok(attr)
}

fn set(tid: i32, attr: &sched_attr) -> io::Result<()> {
    let attr: *const sched_attr = attr;
    // SAFETY: the kernel reads `attr.size` bytes from the structure, which lives during the call.
    result(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, attr, 0u32) })
}

fn result(code: libc::c_long) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use quell_model::SchedClass;

    use super::*;

    #[test]
    fn a_status_file_says_the_same_as_the_system_call() {
        let kernel = Kernel::new().unwrap();
        let own = fs::read_to_string("/proc/thread-self/status").unwrap();
        if !kernel.is_some_cpu_offline() {
            assert_eq!(allowed(&own).unwrap(), kernel.affinity(0).unwrap());
        }
        assert_eq!(allowed("Name:\ta\nCpus_allowed_list:\t0-2,5\n").unwrap(), "0-2,5".parse().unwrap());
    }

    #[test]
    fn who_is_enqueued_anew_keeps_its_slice_if_this_process_ends_meanwhile() {
        let mut kernel = Kernel::new().unwrap();
        if !kernel.has_slices() {
            println!("this kernel has no slices");
            return;
        }
        // A thread of this test: it ends with it.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let own = Nanos::from_millis(5);
                let class = ThreadClass { class: SchedClass::Fair { nice: 0, slice: Some(own) }, reset_on_fork: false };
                kernel.set_class(0, &class).unwrap();
                let half_way = kernel.nudged(get(0).unwrap());
                set(0, &half_way).unwrap();
                let left = get(0).unwrap().sched_runtime;
                assert!((own.0..=own.0 + 1).contains(&left), "{left}");
            });
        });
    }
}
