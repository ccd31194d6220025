//! A process of one thread that only spins.

use std::io;

use quell_model::CpuSet;
use quell_thread::Class;
use quell_thread::class::become_class;
use rustix::process::{Pid, Signal};
use rustix::thread::sched_setaffinity;

use crate::GapError;

fn failed(step: &'static str) -> impl FnOnce(io::Error) -> GapError {
    move |source| GapError::Process { step, source }
}

/// A process that spins until this value is dropped, or the thread that started it ends.
pub(crate) struct Spinner(Pid);

impl Spinner {
    /// Starts one on these CPUs.
    pub fn start(cpus: CpuSet) -> Result<Spinner, GapError> {
        // SAFETY: the child makes nothing but system calls, which is allowed after a fork of a process with threads.
        let pid = unsafe { libc::fork() };
        match pid {
            0 => spin(),
            -1 => Err(failed("fork")(io::Error::last_os_error())),
            pid => {
                let pid = Pid::from_raw(pid).ok_or_else(|| failed("fork")(io::Error::other("no process number")))?;
                let spinner = Spinner(pid);
                let mut set = rustix::thread::CpuSet::new();
                cpus.iter().for_each(|cpu| set.set(cpu.index()));
                sched_setaffinity(Some(pid), &set).map_err(|errno| failed("setting its CPUs")(errno.into()))?;
                Ok(spinner)
            }
        }
    }

    pub fn pid(&self) -> i32 {
        self.0.as_raw_nonzero().get()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        // It is our child and not yet waited for: the number is still its own.
        let _ = rustix::process::kill_process(self.0, Signal::KILL);
        let _ = rustix::process::waitpid(Some(self.0), rustix::process::WaitOptions::empty());
    }
}

/// The child's whole life.
fn spin() -> ! {
    // SAFETY: a system call without pointers: end when the parent's thread does.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    loop {
        std::hint::spin_loop();
    }
}

/// While this lives, the calling thread goes before all threads of the fair class, if we may: it measures for some
/// microseconds every 20 ms, beside spinning threads of a high weight.
pub(crate) struct MeasureFirst {
    allowed: bool,
}

impl MeasureFirst {
    pub fn begin() -> MeasureFirst {
        MeasureFirst { allowed: become_class(Class::Fifo(1)).is_ok() }
    }
}

impl Drop for MeasureFirst {
    fn drop(&mut self) {
        if self.allowed {
            let _ = become_class(Class::Normal);
        }
    }
}
