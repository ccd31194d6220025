//! What is managed, from the beginning to the end.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use quell_agent::guardian::Worker;
use quell_model::Selector;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;

/// Quell itself failed, as env(1) has it.
pub const FAILED: u8 = 125;

/// The signals that Quell catches while it manages something.
pub const CAUGHT: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];

/// Interval of looking for processes that ended.
pub const LOOK: Duration = Duration::from_millis(100);

/// What is managed.
pub trait Subject {
    /// Selectors of its threads.
    fn selectors(&self) -> Vec<Selector>;

    /// A process that waits and has executed nothing yet.
    fn held(&self) -> Option<Pid> {
        None
    }

    /// Lets what waits begin now, and not when the policy is in force: a policy may pause best-effort work, which would then
    /// never begin.
    fn begin(&mut self) {}

    /// It could not be managed: what waits executes nothing.
    fn give_up(&mut self) {}

    /// Lets what waits begin, and waits for the end of it all, or until the work has to stop before; returns Quell's exit
    /// status. `say` gets what is worth saying.
    ///
    /// # Errors
    /// If it cannot be waited for.
    fn wait(&mut self, worker: &Worker, say: &dyn Fn(String)) -> Result<u8>;
}

/// Waits for a moment, or for a process's end.
pub fn has_ended(handle: &OwnedFd) -> Result<bool> {
    let patience = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
    match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&patience)) {
        Ok(0) | Err(Errno::INTR) => Ok(false),
        Ok(_) => Ok(true),
        Err(error) => Err(error).context("cannot wait for a process"),
    }
}

/// A process's name, as ps(1) shows it.
pub fn name_of(pid: i32) -> String {
    let name = quell_linux::comm(std::path::Path::new(&format!("/proc/{pid}/comm")));
    if name.is_empty() { format!("process {pid}") } else { name }
}
