//! A command that is there, as a process, and executes its program only when it is let go.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};

/// A process between fork(2) and execve(2). Dropped, it ends without having executed anything.
pub struct Held {
    /// Its number.
    pub pid: Pid,
    /// A byte lets it go; closed, it ends.
    go: File,
    /// Waits in `Command::spawn` until the program is executed, or cannot be.
    starts: JoinHandle<io::Result<Child>>,
}

impl Held {
    /// Forks.
    ///
    /// # Errors
    /// If the system gives no process, thread or pipe.
    pub fn new(command: &[String]) -> Result<Held> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe");
        let ((wait, go), (read, report)) = (pipe()?, pipe()?);
        let mut start = Command::new(&command[0]);
        start.args(&command[1..]);
        let own_go = go.as_raw_fd();
        let mut ends = Ends { report: report.into(), wait };
        // SAFETY: the closure makes system calls alone, allocates nothing and takes no lock. The descriptor that it closes is
        // the child's copy, which nothing else there uses.
        unsafe { start.pre_exec(move || ends.hold(own_go)) };
        let name = thread::Builder::new().name("quell-start".into());
        let starts = name.spawn(move || start.spawn()).context("cannot start a thread")?;
        let mut number = [0; size_of::<i32>()];
        let held =
            File::from(read).read_exact(&mut number).ok().and_then(|()| Pid::from_raw(i32::from_ne_bytes(number)));
        match held {
            Some(pid) => Ok(Held { pid, go: go.into(), starts }),
            None => {
                let error = starts.join().ok().and_then(Result::err).unwrap_or_else(|| io::ErrorKind::Other.into());
                Err(error).with_context(|| format!("cannot start '{}'", command[0]))
            }
        }
    }

    /// Lets it go; returns the error if the program cannot be executed. The process has ended then, and is reaped.
    ///
    /// # Errors
    /// The system's.
    pub fn let_go(mut self) -> io::Result<Pid> {
        // One that a signal has ended is waited for as one that has begun.
        let _ = self.go.write_all(b"g");
        let started = self.starts.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // What it has become is waited for as one of all children.
        started.map(|_| self.pid)
    }

    /// It never executes its program.
    pub fn end(self) {
        let _ = kill_process(self.pid, Signal::KILL);
        drop(self.go);
        if let Ok(Ok(mut child)) = self.starts.join() {
            let _ = child.wait();
        }
    }
}

/// The child's ends of the pipes.
struct Ends {
    report: File,
    wait: OwnedFd,
}

impl Ends {
    /// In the child: says its number and waits.
    fn hold(&mut self, own_go: i32) -> io::Result<()> {
        // SAFETY: plain system calls. The signals that Quell catches are as execve(2) would leave them: a Ctrl-C ends it.
        unsafe {
            libc::close(own_go);
            for signal in crate::commands::managed::CAUGHT {
                libc::signal(signal, libc::SIG_DFL);
            }
            self.report.write_all(&libc::getpid().to_ne_bytes())?;
        }
        let mut byte = [0];
        loop {
            match rustix::io::read(&self.wait, &mut byte) {
                Ok(1) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                // Quell has ended, or gives up: there is no one to report to.
                // SAFETY: ends the process, which has executed nothing; destructors are the parent's.
                _ => unsafe { libc::_exit(crate::commands::managed::FAILED.into()) },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitOptions, waitpid};

    fn held(command: &[&str]) -> Held {
        Held::new(&command.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_command_executes_nothing_until_it_is_let_go() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("made");
        let held = held(&["touch", file.to_str().unwrap()]);
        let state = std::fs::read_to_string(format!("/proc/{}/stat", held.pid.as_raw_nonzero())).unwrap();
        assert!(!state.contains("(touch)") && !file.exists(), "{state}");
        let pid = held.let_go().unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!((status.exit_status(), file.exists()), (Some(0), true));
    }

    #[test]
    fn a_command_that_is_not_there_says_so_when_it_is_let_go() {
        let error = held(&["/no/such/command"]).let_go().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn one_that_is_given_up_never_executes_its_program() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("made");
        let held = held(&["touch", file.to_str().unwrap()]);
        let pid = held.pid;
        held.end();
        assert!(!file.exists() && waitpid(Some(pid), WaitOptions::NOHANG).is_err(), "it is reaped");
    }
}
