//! An agent with a configuration, a run directory and processes of its own, and strangers beside it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Much longer than anything takes, for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// A user without any capability.
pub const STRANGER: u32 = 65534;

pub const CRITICAL: &str = "class = \"lc\"\ncpus = 1";

/// Strangers are made, and others' classes set.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("not tested here: needs root");
    }
    root
}

/// Waits until it is so; returns the time that it took.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

/// A process that ends with the test, in a group of its own.
pub struct Ours(pub Child);

impl Ours {
    pub fn of(mut command: Command) -> Ours {
        Ours(command.stdin(Stdio::null()).process_group(0).spawn().unwrap())
    }

    /// Sleeps; its command line holds the word.
    pub fn sleeper(word: &str) -> Ours {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do sleep 0.2; done", word]);
        Ours::of(command)
    }

    /// The same of an ordinary user.
    #[allow(dead_code, reason = "for other modules")]
    pub fn strangers_sleeper(word: &str) -> Ours {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do sleep 0.2; done", word]).uid(STRANGER).gid(STRANGER);
        Ours::of(command)
    }

    pub fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// Number of its scheduling policy, as in sched(7): 0 other, 1 FIFO, 5 idle.
    pub fn policy(&self) -> u32 {
        policy_of(self.pid()).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        // It may have ended by itself.
        let _ = kill_process(Pid::from_raw(self.pid()).unwrap(), signal);
    }

    /// Kills an agent and its worker, so that neither sees the other's end.
    pub fn kill_with_its_worker(mut self) {
        let worker = self.child().unwrap();
        let both = [self.pid(), worker];
        let send = |signal| both.map(|pid| kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap());
        send(Signal::STOP);
        // A thread of higher priority that the stop has not reached yet would see its guardian die.
        until("all of their threads are stopped", || both.iter().all(|pid| is_stopped(*pid)));
        send(Signal::KILL);
        self.0.wait().unwrap();
        until("the worker is dead", || {
            let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
        });
    }

    /// Its first child: an agent's worker.
    pub fn child(&self) -> Option<i32> {
        let pid = self.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Are all of its threads stopped by a signal?
fn is_stopped(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

/// Number of a thread's scheduling policy; `None`: it is gone.
pub fn policy_of(tid: i32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(38)?.parse().ok()
}

/// An agent's files, and words that no other process's command line holds.
pub struct Scene {
    directory: TempDir,
    token: String,
}

impl Scene {
    pub fn new(name: &str) -> Scene {
        Scene { directory: tempfile::tempdir().unwrap(), token: format!("hostile-{name}-{}", std::process::id()) }
    }

    pub fn word(&self, workload: &str) -> String {
        format!("{}-{workload}", self.token)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Each workload is what this user runs with its word in its command line.
    pub fn configure(&self, policy: &str, workloads: &[(&str, &str)]) {
        let mut text = format!("[[policy]]\nname = \"{policy}\"\n");
        for (name, more) in workloads {
            let (word, user) = (self.word(name), rustix::process::geteuid().as_raw());
            text += &format!(
                "[[workload]]\nname = \"{name}\"\n{more}\nmatch = [{{ command = \"{word}\", user = \"{user}\" }}]\n"
            );
        }
        std::fs::write(self.path("quell.toml"), text).unwrap();
    }

    pub fn run(&self, more: &[&str]) -> Ours {
        self.run_in("run", more)
    }

    /// An agent with this run directory; its log is a file of the same name with the ending `.log`.
    pub fn run_in(&self, directory: &str, more: &[&str]) -> Ours {
        let log = std::fs::File::create(self.path(&format!("{directory}.log"))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.arg("run").arg("--config").arg(self.path("quell.toml")).arg("--run-dir").arg(self.path(directory));
        command.args(more).stdout(Stdio::null()).stderr(log).env("QUELL_LOG", "info");
        Ours::of(command)
    }

    /// `quell protect` with this run directory, and a log as an agent's.
    pub fn protect(&self, directory: &str, arguments: &[&str]) -> Ours {
        let log = std::fs::File::create(self.path(&format!("{directory}.log"))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.arg("protect").args(arguments).env("QUELL_RUN_DIR", self.path(directory)).stderr(log);
        Ours::of(command)
    }

    /// What an agent with this run directory has logged.
    pub fn log_of(&self, directory: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{directory}.log"))).unwrap()
    }

    pub fn restore(&self) -> Output {
        quell(&["restore", "--run-dir"], &[&self.path("run")])
    }

    pub fn status(&self) -> Option<Value> {
        let output = quell(&["status", "--json", "--socket"], &[&self.path("run/api.sock")]);
        serde_json::from_slice(&output.stdout).ok()
    }
}

/// What a command said, on standard output and error.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub fn quell(arguments: &[&str], more: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quell")).args(arguments).args(more).stdin(Stdio::null()).output().unwrap()
}
