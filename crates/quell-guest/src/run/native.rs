//! Runs a command on this machine itself, where its kernel has sched_ext.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::{Ending, Job};
use crate::error::{LabError, Result};

/// Runs `job` here, with this process's standard files. On a time-out its process group is killed.
///
/// # Errors
/// When this kernel (looked up below `sys`, which is `/sys`) has no sched_ext, when the program is not found, or when the
/// time-out passes.
pub fn native(job: &Job, sys: &Path) -> Result<Ending> {
    if !sys.join("kernel/sched_ext").exists() {
        let why = "this machine's kernel has no sched_ext (no /sys/kernel/sched_ext); omit --native to use the lab's";
        return Err(LabError::BadOption { option: "--native", why: why.into() });
    }
    let program = job.command.first().ok_or(LabError::BadOption { option: "CMD", why: "no command given".into() })?;
    let started = Instant::now();
    let mut command = Command::new(program);
    command.args(&job.command[1..]).envs(job.environment.iter().cloned()).current_dir(&job.directory);
    if job.timeout.is_some() {
        command.process_group(0);
    }
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LabError::CommandNotFound {
            command: program.to_string_lossy().into_owned(),
            looked: "looked for on this machine".into(),
        },
        _ => LabError::io("run", Path::new(program))(error),
    })?;
    let pid = Pid::from_child(&child);
    if let Some(timeout) = job.timeout {
        let watch = |error: rustix::io::Errno| LabError::io("watch", Path::new(program))(error.into());
        let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(watch)?;
        let left = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        if poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&left)).map_err(watch)? == 0 {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = child.wait();
            return Err(LabError::TimedOut { seconds: timeout.as_secs(), last: String::new() });
        }
    }
    let status = child.wait().map_err(LabError::io("wait for", Path::new(program)))?;
    Ok(Ending { status: shell_status(status), wall: started.elapsed() })
}

fn shell_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.saturating_add(signal as u8),
        (None, None) => 125,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sys_with_sched_ext() -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(sys.path().join("kernel/sched_ext")).unwrap();
        sys
    }

    #[test]
    fn the_status_is_the_commands() {
        let sys = sys_with_sched_ext();
        assert_eq!(native(&Job::new(["sh", "-c", "exit 5"]), sys.path()).unwrap().status, 5);
        assert_eq!(native(&Job::new(["sh", "-c", "kill -9 $$"]), sys.path()).unwrap().status, 137);
        let missing = native(&Job::new(["no-such-command"]), sys.path()).unwrap_err();
        assert_eq!(missing.exit_status(), 127);
    }

    #[test]
    fn a_kernel_without_sched_ext_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        assert!(native(&Job::new(["true"]), empty.path()).unwrap_err().to_string().contains("sched_ext"));
    }

    #[test]
    fn a_time_out_ends_it() {
        let sys = sys_with_sched_ext();
        let mut job = Job::new(["sleep", "100"]);
        job.timeout = Some(Duration::from_millis(50));
        assert_eq!(native(&job, sys.path()).unwrap_err().exit_status(), 124);
    }
}
