//! Processes that a test starts itself.

#![allow(dead_code, reason = "each test file needs some of it")]

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use quell_model::Selector;

/// A shell and all that it started, in a session of its own.
pub struct Guests(pub Child);

impl Guests {
    pub fn start(script: &str) -> Guests {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        Guests(command.spawn().expect("a shell"))
    }

    pub fn selector(&self) -> Selector {
        Selector::Pid(self.0.id() as i32)
    }

    pub fn affinity(&self) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}
