//! Processes, a run directory, and an agent in it.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use quell_linux::sched::{Kernel, ThreadCalls};
use quell_model::SchedClass;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Much longer than anything takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub const FIFO: SchedClass = SchedClass::Fifo { priority: 1 };

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Root may set classes.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("not tested here: needs root");
    }
    is_root
}

pub fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// A process that ends with the test, in a group of its own.
pub struct Ours(pub Child);

impl Ours {
    pub fn of(mut command: Command) -> Ours {
        Ours(command.process_group(0).stdin(Stdio::null()).spawn().unwrap())
    }

    pub fn sleeper() -> Ours {
        let mut command = Command::new("sleep");
        command.arg("600");
        Ours::of(command)
    }

    pub fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    pub fn class(&self) -> SchedClass {
        Kernel::new().unwrap().class(self.pid()).unwrap().class
    }

    /// Ends at this signal.
    pub fn end(&mut self, signal: Signal) {
        send(self.pid(), signal);
        self.0.wait().unwrap();
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run directory.
pub struct Scene(TempDir);

impl Scene {
    pub fn new() -> Scene {
        Scene(tempfile::tempdir().unwrap())
    }

    pub fn run_dir(&self) -> PathBuf {
        self.0.path().join("run")
    }

    pub fn socket(&self) -> PathBuf {
        self.run_dir().join("api.sock")
    }

    /// A `quell` with this run directory.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.args(arguments).env("QUELL_RUN_DIR", self.run_dir()).env("QUELL_LOG", "warn").stdin(Stdio::null());
        command
    }

    pub fn quell(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn status(&self) -> Option<Value> {
        serde_json::from_slice(&self.quell(&["status", "--json"]).stdout).ok()
    }

    /// What `status` has of a workload of the configuration, or a leased one.
    pub fn configured(&self, name: &str) -> Option<Value> {
        let all = self.status()?["configured"].as_array()?.clone();
        all.into_iter().find(|workload| workload["name"] == name)
    }

    /// `guard` for the workload `web`, and for these more, by their processes.
    pub fn configure(&self, web: &Ours, more: &[(&str, &Ours)]) {
        let mut text = "[[policy]]\nname = \"guard\"\n".to_owned();
        for (name, process) in std::iter::once(&("web", web)).chain(more) {
            let pid = process.pid();
            text +=
                &format!("[[workload]]\nname = \"{name}\"\nclass = \"lc\"\ncpus = 0.25\nmatch = [{{ pid = {pid} }}]\n");
        }
        std::fs::write(self.0.path().join("quell.toml"), text).unwrap();
    }

    /// An agent that guards this service.
    pub fn agent(&self, web: &Ours) -> Ours {
        self.configure(web, &[]);
        let mut command = self.command(&["run", "--config"]);
        let agent = Ours::of({
            command.arg(self.0.path().join("quell.toml")).stdout(Stdio::null());
            command
        });
        until("the service is guarded", || web.class() == FIFO);
        until("it answers", || self.configured("web").is_some_and(|web| web["state"] == "attached"));
        agent
    }
}
