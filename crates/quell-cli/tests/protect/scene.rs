//! Programs with names of their own, and Quells that protect them.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

/// Much longer than anything takes, for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// An ordinary user.
pub const STRANGER: u32 = 4_711;
pub const FIFO: u32 = 1;
pub const IDLE: u32 = 5;

/// Threads become real-time, and strangers are made.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("not tested here: needs root");
    }
    root
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that ends with the test, in a group of its own.
pub struct Ours(pub Child);

impl Ours {
    pub fn of(mut command: Command) -> Ours {
        Ours(command.stdin(Stdio::null()).process_group(0).spawn().unwrap())
    }

    pub fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Ctrl-C, as a terminal sends it: to the whole group.
    pub fn ctrl_c(&self) {
        kill_process_group(Pid::from_raw(self.pid()).unwrap(), Signal::INT).unwrap();
    }

    /// The number of its scheduling policy, as in sched(7).
    pub fn policy(&self) -> u32 {
        policy(self.pid()).unwrap()
    }

    /// The CPUs that it may use, as the kernel lists them.
    pub fn allowed(&self) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    }

    /// Its first child: a guardian's worker.
    pub fn child(&self) -> Option<i32> {
        let pid = self.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    pub fn ends(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            match self.0.try_wait().unwrap() {
                Some(status) => return status.code(),
                None => assert!(begun.elapsed() < PATIENCE, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The number of a process's scheduling policy; None: it has ended.
pub fn policy(pid: i32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(38)?.parse().ok()
}

pub fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// A directory with a run directory, a configuration and a program of a name that no other has.
pub struct Scene {
    pub directory: TempDir,
    pub name: String,
}

impl Scene {
    /// The name is at most 15 characters, as the kernel keeps it.
    pub fn new(word: &str) -> Scene {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        // Others have to reach it.
        fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let name = format!("q{word}{:x}", std::process::id());
        assert!(name.len() <= 15, "{name}");
        fs::copy("/bin/sleep", directory.path().join(&name)).unwrap();
        Scene { directory, name }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A server that does nothing.
    pub fn server(&self) -> Ours {
        let mut command = Command::new(self.path(&self.name));
        command.arg("300");
        Ours::of(command)
    }

    pub fn strangers_server(&self) -> Ours {
        let mut command = Command::new(self.path(&self.name));
        command.arg("300").uid(STRANGER).gid(STRANGER);
        Ours::of(command)
    }

    /// `quell` with the run directory of this name.
    pub fn quell(&self, run_dir: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.args(arguments).env("QUELL_RUN_DIR", self.path(run_dir)).env_remove("SUDO_UID").stdin(Stdio::null());
        command
    }

    pub fn said(&self, arguments: &[&str]) -> Said {
        Said::of(&self.quell("run", arguments).output().unwrap())
    }

    /// A Quell that goes on, its standard error in the file `protect.log` and its output in `protect.out`.
    pub fn begin(&self, arguments: &[&str]) -> Ours {
        let mut command = self.quell("run", arguments);
        let file = |name| fs::File::create(self.path(name)).unwrap();
        command.stderr(file("protect.log")).stdout(file("protect.out"));
        Ours::of(command)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("protect.log")).unwrap()
    }

    pub fn output(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("protect.out")).unwrap()).unwrap_or_default()
    }

    /// An agent with this configuration.
    pub fn agent(&self, text: &str) -> Ours {
        fs::write(self.path("quell.toml"), text).unwrap();
        self.agent_of_drop_ins()
    }

    /// An agent with the configuration that is there.
    pub fn agent_of_drop_ins(&self) -> Ours {
        let mut command = self.quell("run", &["run", self.path("quell.toml").to_str().unwrap()]);
        command.stdout(Stdio::null()).stderr(fs::File::create(self.path("agent.log")).unwrap());
        let agent = Ours::of(command);
        until("the agent answers", || self.status().is_some());
        agent
    }

    pub fn status(&self) -> Option<Value> {
        let output = self.quell("run", &["status", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }
}

/// What a Quell said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub error: String,
}

impl Said {
    fn of(output: &Output) -> Said {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Said { code: output.status.code(), out: text(&output.stdout), error: text(&output.stderr) }
    }
}
