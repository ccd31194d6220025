//! `quell antagonist` as a process of its own, which reports its work over time when it is ended.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quell_bench::antagonist::{AntagonistReport, Kind, Progress};
use quell_model::SchedClass;
use quell_sim::workload::Phases;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::launch::launched;

/// Longest time until it works; a heap has to be filled first.
const START_LIMIT: Duration = Duration::from_secs(20);

/// What it does.
#[derive(Clone, Copy)]
pub struct Asked {
    pub kind: Kind,
    pub threads: u32,
    /// Quiet and busy in turn.
    pub phases: Option<Phases>,
    pub class: SchedClass,
}

/// A running antagonist.
pub struct Antagonist {
    child: Child,
    output: ChildStdout,
    directory: TempDir,
}

impl Antagonist {
    /// Starts one; it ends by itself after `at_most`, whatever happens to this process.
    pub fn start(asked: Asked, at_most: Duration) -> Result<Antagonist> {
        let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
        let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
        command.args(["antagonist", asked.kind.name(), "--json", "--threads", &asked.threads.to_string()]);
        command.args(["--duration", &format!("{}s", at_most.as_secs() + 1)]);
        if let Some(Phases { busy, quiet }) = asked.phases {
            let period = busy + quiet;
            command.args([
                "--period",
                &format!("{}ns", period.0),
                "--duty",
                &(busy.0 as f64 / period.0 as f64).to_string(),
            ]);
        }
        command.arg("--progress").arg(progress(&directory));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = launched(&mut command, asked.class).context("cannot start the antagonist")?;
        let output = child.stdout.take().context("the antagonist has no output")?;
        Ok(Antagonist { child, output, directory })
    }

    /// Waits until it works.
    pub fn begun(mut self) -> Result<Antagonist> {
        let begun = Instant::now();
        while Progress::open(&progress(&self.directory))?.is_none_or(|progress| progress.started_ns().is_none()) {
            if let Some(status) = self.child.try_wait()? {
                bail!("the antagonist ended at once with {status}");
            }
            if begun.elapsed() > START_LIMIT {
                bail!("the antagonist does not begin to work within {START_LIMIT:?}");
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(self)
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Ends it and returns its report.
    pub fn end(mut self) -> Result<AntagonistReport> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).context("cannot end the antagonist")?;
        let mut text = String::new();
        self.output.read_to_string(&mut text).context("cannot read the antagonist's report")?;
        serde_json::from_str(&text).context("the antagonist's report is not what was expected")
    }
}

fn progress(directory: &TempDir) -> PathBuf {
    directory.path().join("progress")
}

impl Drop for Antagonist {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
