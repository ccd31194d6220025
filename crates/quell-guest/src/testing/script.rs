//! A shell's script in a guest, for tests of whole programs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Ending, Job, Lab, Machine, Result, Root, ToStderr};

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

    /// Runs it. With `QUELL_LAB_LIVE` set its output is shown as it comes, too.
    ///
    /// # Panics
    /// If the lab fails.
    #[must_use]
    pub fn run(&self) -> Said {
        let lab = Lab::new(&ToStderr).unwrap_or_else(|error| panic!("the lab failed: {error}"));
        let said = match std::env::var_os("QUELL_LAB_LIVE").is_some() {
            true => self.run_live(&lab),
            false => lab.output(&self.machine, &self.job).map(|it| (it.ending, it.stdout, it.stderr)),
        };
        let (ending, stdout, stderr) = said.unwrap_or_else(|error| panic!("the lab failed: {error}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { status: ending.status, out: text(&stdout), err: text(&stderr) }
    }

    fn run_live(&self, lab: &Lab<'_>) -> Result<(Ending, Vec<u8>, Vec<u8>)> {
        let (mut stdout, mut stderr) = (Shown::default(), Shown::default());
        let ending = lab.run(&self.machine, &self.job, &mut stdout, &mut stderr)?;
        Ok((ending, stdout.0, stderr.0))
    }
}

/// Bytes that are also shown on the error output.
#[derive(Default)]
struct Shown(Vec<u8>);

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        io::stderr().write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
