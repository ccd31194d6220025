//! The command of `quell exec`: it is started, waited for, and what it leaves behind is reaped.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use quell_agent::guardian::Worker;
use quell_model::Selector;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open, pidfd_send_signal, wait};
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::iterator::Signals;

use super::held::Held;
use super::measured::Measured;
use crate::commands::managed::{CAUGHT, FAILED, LOOK, Subject, has_ended, name_of};

/// The command is there and cannot be executed.
const CANNOT_EXECUTE: u8 = 126;
/// There is no such command.
const NOT_FOUND: u8 = 127;

/// Processes that end a moment after the command are waited for without a word.
const A_MOMENT: Duration = Duration::from_millis(300);

/// A command and its descendants: they are this process's, also those whose parents ended.
pub struct Started {
    name: String,
    held: Option<Held>,
    /// The outcome of its start, where that came before the loop.
    begun: Option<io::Result<Pid>>,
    /// Has it ended, so that signals are no longer its, but Quell's?
    ended: Arc<AtomicBool>,
    /// What is measured while it runs.
    measured: Option<Measured>,
}

impl Started {
    /// A command, which is held until it is let go; else the exit status that says why there can be none. A signal after its end
    /// sets `stop`.
    pub fn new(command: &[String], stop: &Arc<AtomicBool>, measured: Option<Measured>) -> Result<Result<Started, u8>> {
        if !exists(&command[0]) {
            return Ok(Err(not_found(&command[0])));
        }
        // What its descendants leave behind comes to this process: it is managed and reaped here.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).context("cannot adopt orphans")?;
        let signals = Signals::new(CAUGHT).context("cannot catch signals")?;
        let held = Held::new(command)?;
        let ended = Arc::new(AtomicBool::new(false));
        // Its number may be another process's when a signal comes.
        let handle = pidfd_open(held.pid, PidfdFlags::empty()).context("cannot wait for the command");
        let handle = match handle {
            Ok(handle) => handle,
            Err(error) => {
                held.end();
                return Err(error);
            }
        };
        let (over, stop) = (Arc::clone(&ended), Arc::clone(stop));
        let body = move || forward(signals, &handle, &over, &stop);
        thread::Builder::new().name("quell-signals".into()).spawn(body).context("cannot start a thread")?;
        Ok(Ok(Started { name: command[0].clone(), held: Some(held), begun: None, ended, measured }))
    }

    /// Lets it go, if that is still to be done, and waits for the end of it all, or until it has to stop before. `each` is called
    /// many times a second; `say` gets what is worth saying. Returns the exit status.
    ///
    /// # Errors
    /// If it cannot be started or waited for.
    pub fn attend(&mut self, stop: &AtomicBool, say: &dyn Fn(String), each: &mut dyn FnMut()) -> Result<u8> {
        self.begin();
        let Some(begun) = self.begun.take() else { return Ok(FAILED) };
        let pid = match begun {
            Ok(pid) => pid,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(not_found(&self.name)),
            Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::WouldBlock) => {
                return Err(error).with_context(|| format!("cannot start '{}'", self.name));
            }
            Err(error) => {
                eprintln!("quell: cannot run '{}': {error}", self.name);
                return Ok(CANNOT_EXECUTE);
            }
        };
        let over = AtomicBool::new(false);
        let measured = self.measured.take();
        thread::scope(|scope| {
            if let Some(measured) = &measured {
                let measure = || measured.run(&over);
                thread::Builder::new().name("quell-measure".into()).spawn_scoped(scope, measure)?;
            }
            let ended = self.until_the_end(pid, stop, say, each);
            over.store(true, Ordering::Release);
            ended
        })
    }

    fn until_the_end(
        &mut self,
        pid: Pid,
        stop: &AtomicBool,
        say: &dyn Fn(String),
        each: &mut dyn FnMut(),
    ) -> Result<u8> {
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok();
        let (mut status, mut ended_at, mut said) = (None, None, false);
        while !stop.load(Ordering::Acquire) {
            each();
            match handle.as_ref().filter(|_| status.is_none()) {
                Some(handle) => _ = has_ended(handle)?,
                None => thread::sleep(LOOK),
            }
            let any_left = reap(pid, &mut status)?;
            if status.is_none() && any_left {
                continue;
            }
            self.ended.store(true, Ordering::Release);
            if !any_left {
                break;
            }
            let since = *ended_at.get_or_insert_with(Instant::now);
            if !said && since.elapsed() > A_MOMENT {
                said = true;
                let left = in_words(&children());
                say(format!(
                    "the command has ended with status {}; the processes it left running ({left}) remain managed until they end, or \
                     until Ctrl-C, which puts everything back and leaves them running",
                    status.unwrap_or(FAILED)
                ));
            }
        }
        reap(pid, &mut status)?;
        Ok(status.unwrap_or(FAILED))
    }
}

impl Subject for Started {
    /// Quell's own process selects what it starts and adopts; itself it never manages.
    fn selectors(&self) -> Vec<Selector> {
        vec![Selector::Pid(std::process::id().cast_signed())]
    }

    fn held(&self) -> Option<Pid> {
        self.held.as_ref().map(|held| held.pid)
    }

    /// Lets it execute its program, once.
    fn begin(&mut self) {
        if let Some(held) = self.held.take() {
            self.begun = Some(held.let_go());
        }
    }

    fn give_up(&mut self) {
        if let Some(held) = self.held.take() {
            held.end();
        }
    }

    fn wait(&mut self, worker: &Worker, say: &dyn Fn(String)) -> Result<u8> {
        self.attend(worker.stop(), say, &mut || {})
    }
}

/// Reaps the children that ended, and notes the command's own exit status; are there others?
fn reap(command: Pid, status: &mut Option<u8>) -> Result<bool> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, ended))) if pid == command => *status = Some(exit_status(ended)),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Ok(true),
            Err(Errno::CHILD) => return Ok(false),
            Err(error) => return Err(error).context("cannot wait for the command"),
        }
    }
}

/// This process's children.
pub fn children() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Children: the first by number and name, the others as a number.
fn in_words(pids: &[i32]) -> String {
    match pids {
        [] => format!("the children of process {}", std::process::id()),
        [only] => format!("process {only}, {}", name_of(*only)),
        [first, others @ ..] => format!("process {first}, {}, and {} more", name_of(*first), others.len()),
    }
}

/// Is there such a command, as execvp(3) looks for it?
fn exists(command: &str) -> bool {
    if command.contains('/') {
        return Path::new(command).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).any(|directory| directory.join(command).exists())
}

fn not_found(command: &str) -> u8 {
    eprintln!("quell: there is no command '{command}'");
    NOT_FOUND
}

/// Hands signals on to the command; the terminal sends it SIGINT and SIGQUIT by itself. Once it has ended, a signal ends the
/// work.
fn forward(mut signals: Signals, command: &OwnedFd, ended: &AtomicBool, stop: &AtomicBool) {
    for signal in &mut signals {
        if ended.load(Ordering::Acquire) {
            stop.store(true, Ordering::Release);
            continue;
        }
        let forwarded = match signal {
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            _ => continue,
        };
        let _ = pidfd_send_signal(command, forwarded);
    }
}

fn exit_status(status: WaitStatus) -> u8 {
    let code = status.exit_status().unwrap_or_else(|| 128 + status.terminating_signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(FAILED)
}
