//! A shell's script in a guest, for tests of whole programs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Job, Lab, Machine, Root, ToStderr};

/// What a script printed, and its exit status.
#[derive(Debug)]
pub struct Said {
    /// 124 after the time-out.
    pub status: u8,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// A script.
pub struct Script {
    machine: Machine,
    job: Job,
}

impl Script {
    /// On this machine, for this long at most.
    #[must_use]
    pub fn new(machine: Machine, timeout: Duration, text: &str) -> Script {
        let job = Job { timeout: Some(timeout), ..Job::new(["sh", "-c", text]) };
        Script { machine, job }
    }

    /// With a variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<Path>) -> Script {
        self.job.environment.push((name.into(), value.as_ref().into()));
        self
    }

    /// With these programs, what they load, and nothing else of the host.
    #[must_use]
    pub fn packed<'a>(mut self, programs: impl IntoIterator<Item = &'a str>) -> Script {
        self.machine.root = Root::Packed(programs.into_iter().map(PathBuf::from).collect());
        self.job.directory = "/".into();
        self
    }

    /// Runs it.
    ///
    /// # Panics
    /// If the lab fails.
    #[must_use]
    pub fn run(&self) -> Said {
        let output = Lab::new(&ToStderr).and_then(|lab| lab.output(&self.machine, &self.job));
        let output = output.unwrap_or_else(|error| panic!("the lab failed: {error}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { status: output.ending.status, out: text(&output.stdout), err: text(&output.stderr) }
    }
}
