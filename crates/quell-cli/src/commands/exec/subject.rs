//! The subject of `quell exec`: a command that it starts, or running processes.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{Context, Result, bail};
use quell_agent::guardian::Worker;
use quell_linux::procfs::ProcFs;
use quell_model::Selector;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// Quell itself failed, as env(1) has it.
pub const FAILED: u8 = 125;
/// The command is there and cannot be executed.
const CANNOT_EXECUTE: u8 = 126;
/// There is no such command.
const NOT_FOUND: u8 = 127;

/// The managed processes.
pub enum Subject {
    /// A command, which ends with Quell's work.
    Command(Child),
    /// Processes that run already, and continue afterwards.
    Running(Vec<(i32, OwnedFd)>),
}

impl Subject {
    /// Starts a command; else the exit status that says why it could not.
    pub fn command(command: &[String]) -> Result<Result<Subject, u8>> {
        let signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT]).context("cannot catch signals")?;
        let child = match Command::new(&command[0]).args(&command[1..]).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("quell: there is no command '{}'", command[0]);
                return Ok(Err(NOT_FOUND));
            }
            Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::WouldBlock) => {
                return Err(error).with_context(|| format!("cannot start '{}'", command[0]));
            }
            Err(error) => {
                eprintln!("quell: cannot run '{}': {error}", command[0]);
                return Ok(Err(CANNOT_EXECUTE));
            }
        };
        let pid = Pid::from_child(&child);
        thread::Builder::new().name("quell-signals".into()).spawn(move || forward(signals, pid))?;
        Ok(Ok(Subject::Command(child)))
    }

    /// Takes processes that run already; SIGINT, SIGTERM, SIGHUP and SIGQUIT end the work from now on.
    pub fn running(pids: &[i32], worker: &Worker) -> Result<Subject> {
        for signal in [SIGTERM, SIGHUP, SIGINT, SIGQUIT] {
            signal_hook::flag::register(signal, Arc::clone(worker.stop())).context("cannot catch signals")?;
        }
        let open = |&pid: &i32| {
            let number = Pid::from_raw(pid).context("a process has a number above 0")?;
            let handle =
                pidfd_open(number, PidfdFlags::empty()).with_context(|| format!("cannot watch process {pid}"))?;
            Ok((pid, handle))
        };
        Ok(Subject::Running(pids.iter().map(open).collect::<Result<_>>()?))
    }

    /// Selectors of its threads.
    pub fn selectors(&self) -> Vec<Selector> {
        match self {
            Subject::Command(child) => vec![Selector::Pid(child.id().cast_signed())],
            Subject::Running(processes) => processes.iter().map(|(pid, _)| Selector::Pid(*pid)).collect(),
        }
    }

    /// Waits for the end, or until the work has to stop before; returns Quell's exit status.
    pub fn wait(&mut self, worker: &Worker) -> Result<u8> {
        match self {
            Subject::Command(child) => {
                let handle =
                    pidfd_open(Pid::from_child(child), PidfdFlags::empty()).context("cannot watch the command")?;
                if until_end(&handle, worker)? {
                    return Ok(exit_status(child.wait()?));
                }
                Ok(child.try_wait()?.map_or(FAILED, exit_status))
            }
            Subject::Running(processes) => {
                for (_, handle) in processes {
                    if !until_end(handle, worker)? {
                        break;
                    }
                }
                Ok(0)
            }
        }
    }

    /// It could not be managed: a command that was started for that is not left alone.
    pub fn give_up(&mut self) {
        if let Subject::Command(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for a process's end; false if the work has to stop before.
fn until_end(handle: &OwnedFd, worker: &Worker) -> Result<bool> {
    let patience = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !worker.stop().load(Ordering::Acquire) {
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error).context("cannot wait for a process"),
        }
    }
    Ok(false)
}

/// Hands signals on to the command. The terminal sends it SIGINT and SIGQUIT by itself.
fn forward(mut signals: Signals, command: Pid) {
    for signal in &mut signals {
        let forwarded = match signal {
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            _ => continue,
        };
        let _ = kill_process(command, forwarded);
    }
}

fn exit_status(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(FAILED)
}

/// Can this process be managed as one that runs already?
pub fn check(pid: i32) -> Result<()> {
    let mut proc = ProcFs::open(Path::new("/proc"))?;
    let mut own = std::process::id().cast_signed();
    while let Some(stat) = proc.stat(own, own)? {
        if own == pid {
            bail!("process {pid} is Quell itself or started it: manage another one");
        }
        if stat.parent <= 0 {
            break;
        }
        own = stat.parent;
    }
    let Some(stat) = proc.stat(pid, pid)? else {
        bail!("no process {pid} runs; see pgrep -a NAME");
    };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")).map_or("", str::trim);
    if !process.is_empty() && process != pid.to_string() {
        bail!("{pid} is a thread of process {process}: give --pid {process}");
    }
    if stat.is_kernels {
        bail!("process {pid} is a thread of the kernel: leave it alone");
    }
    Ok(())
}

/// A process's name, as ps(1) shows it.
pub fn name_of(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("process {pid}"),
        name => name.to_owned(),
    }
}
