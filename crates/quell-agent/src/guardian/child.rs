//! The worker's process, as its guardian sees it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use quell_model::Nanos;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open, pidfd_send_signal, setpriority_process, waitpid,
};

use crate::AgentError;

/// A handle that reports the end of the worker's loop, its first thread (Linux 6.9 on); on older kernels, the end of
/// all its threads.
pub(super) fn handle(pid: Pid) -> Result<OwnedFd, AgentError> {
    let first_thread = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
    pidfd_open(pid, first_thread)
        .or_else(|_| pidfd_open(pid, PidfdFlags::empty()))
        .map_err(system("open the worker's handle"))
}

/// A file of a process. It stays open: a watcher must not look up the files of a process that may just be dying (see
/// [`Sentry`]).
pub(super) fn file_of(pid: Pid, name: &str) -> Option<File> {
    File::open(format!("/proc/{}/{name}", pid.as_raw_nonzero())).ok()
}

/// For how long a process's first thread, the loop, could run and had no CPU: the second number of
/// `/proc/PID/schedstat` (Documentation/scheduler/sched-stats.rst).
pub(super) fn waited(times: &File) -> Option<Nanos> {
    let mut text = [0; 128];
    let length = times.read_at(&mut text, 0).ok()?;
    let text = str::from_utf8(&text[..length]).ok()?;
    text.split_whitespace().nth(1)?.parse().ok().map(Nanos)
}

/// Was the process killed without having died yet? SIGKILL is the ninth bit of the pending signals
/// (proc_pid_status(5)).
pub(super) fn is_doomed(status: &File) -> bool {
    let mut text = [0; 4096];
    let length = status.read_at(&mut text, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..length]);
    let pending = text.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    pending
        .filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .any(|mask| mask >> (libc::SIGKILL - 1) & 1 == 1)
}

pub(super) fn kill(process: &OwnedFd, signal: Signal) {
    // It fails only if the process is gone, which the next check finds.
    let _ = pidfd_send_signal(process, signal);
}

/// A process that is to end does so only when all of its threads had a CPU once more, and one of low priority may wait for that long.
pub(super) fn hurry(pid: Pid) {
    const FIRST: i32 = -20;
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    let numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    for thread in numbers.filter_map(Pid::from_raw) {
        // An ordinary user's guardian may not, and a thread may be gone.
        let _ = setpriority_process(Some(thread), FIRST);
    }
}

/// Waits for the end of all threads of a process whose first one has ended: another may be inside a system call. Calls `alive`
/// each second.
pub(super) fn reap(pid: Pid, alive: &mut dyn FnMut()) -> Result<WaitStatus, AgentError> {
    let (mut pause, mut last) = (Duration::from_millis(1), Instant::now());
    loop {
        match waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(system("wait for the worker")(errno)),
        }
        hurry(pid);
        if last.elapsed() > Duration::from_secs(1) {
            last = Instant::now();
            alive();
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

pub(super) fn system(operation: &'static str) -> impl FnOnce(Errno) -> AgentError {
    move |errno| AgentError::System { operation, source: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_long_a_thread_waited() {
        let own = rustix::process::getpid();
        let Some(times) = file_of(own, "schedstat") else { return println!("this kernel has no schedstat") };
        let before = waited(&times).expect("three numbers");
        let end = Instant::now() + Duration::from_millis(20);
        while Instant::now() < end {}
        assert!(waited(&times) >= Some(before));
        assert!(!is_doomed(&file_of(own, "status").expect("its status")));
    }

    #[test]
    fn a_process_that_is_to_end_goes_before_others() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&child);
        setpriority_process(Some(pid), 19).unwrap();
        hurry(pid);
        let nice = rustix::process::getpriority_process(Some(pid)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        match rustix::process::geteuid().is_root() {
            true => assert_eq!(nice, -20),
            false => println!("skipped: an ordinary user raises no priority"),
        }
        // Gone: nothing happens.
        hurry(pid);
    }
}
