//! The demo's best-effort work: `quell antagonist` as a process of its own, which reports its work over time when it
//! is ended.

use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quell_bench::antagonist::{AntagonistReport, Kind, Progress};
use rustix::process::{Pid, Signal, kill_process};

use super::server::die_with_us;

/// Longest time until it works; a heap has to be filled first.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running antagonist.
pub struct Antagonist {
    child: Child,
    output: ChildStdout,
}

impl Antagonist {
    /// Starts one of this kind, as SCHED_IDLE if asked; it ends by itself after `at_most`, whatever happens to the demo.
    pub fn start(kind: Kind, threads: u32, at_most: Duration, idle: bool) -> Result<Antagonist> {
        let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
        let path = directory.path().join("progress");
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        let mut child = die_with_us(&mut command)
            .args(["antagonist", kind.name(), "--json", "--threads", &threads.to_string()])
            .args(["--duration", &format!("{}s", at_most.as_secs() + 1)])
            .args(idle.then_some("--idle"))
            .arg("--progress")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the antagonist")?;
        let output = child.stdout.take().context("the antagonist has no output")?;
        let mut antagonist = Antagonist { child, output };
        let begun = Instant::now();
        while Progress::open(&path)?.is_none_or(|progress| progress.started_ns().is_none()) {
            if let Some(status) = antagonist.child.try_wait()? {
                bail!("the antagonist ended at once with {status}");
            }
            if begun.elapsed() > START_LIMIT {
                bail!("the antagonist does not begin to work within {START_LIMIT:?}");
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(antagonist)
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

impl Drop for Antagonist {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
