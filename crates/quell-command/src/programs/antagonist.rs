//! An antagonist as a process of its own, which reports its work over time when it is ended.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quell_bench::antagonist::{self, AntagonistReport, AntagonistSpec, Kind, Phase, Progress};
use quell_model::SchedClass;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::launch::launched;
use super::{check, usual};
use crate::{request, signals};

/// Longest time until it works; a heap has to be filled first.
const START_LIMIT: Duration = Duration::from_secs(20);

/// What it does.
#[derive(Clone, Copy)]
pub struct Asked {
    /// The resource that it takes.
    pub kind: Kind,
    /// Its threads.
    pub threads: u32,
    /// Quiet and busy in turn; None: as is usual for its kind.
    pub phase: Option<Phase>,
    /// How its threads are scheduled.
    pub class: SchedClass,
}

/// Work until SIGTERM, or for the time of the specification.
#[derive(Serialize, Deserialize)]
pub struct Request {
    spec: AntagonistSpec,
    /// Where its blocks are counted.
    progress: PathBuf,
}

impl request::Request for Request {
    const NAME: &'static str = "antagonist";
    type Answer = AntagonistReport;

    fn answer(self) -> Result<AntagonistReport> {
        let stop = Arc::new(AtomicBool::new(false));
        signals::set_on_interrupt(&stop)?;
        let progress = Progress::create(Some(&self.progress), self.spec.threads)?;
        Ok(antagonist::run(&self.spec, &progress, &stop)?)
    }
}

/// A running antagonist.
pub struct Antagonist {
    asked: request::Asked<Request>,
    /// Where it counts: memory that has no name, so that nothing is left behind, whatever ends this process.
    counted: OwnedFd,
}

impl Antagonist {
    /// Starts one; it ends by itself after `at_most`, whatever happens to this process.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(asked: Asked, at_most: Duration) -> Result<Antagonist> {
        let counted = memfd_create("quell-progress", MemfdFlags::CLOEXEC).context("cannot take memory to count in")?;
        let usual = usual(asked.kind, asked.threads)?;
        let duration_ns = (at_most + Duration::from_secs(1)).as_nanos() as u64;
        let spec = AntagonistSpec { duration_ns, phase: asked.phase.or(usual.phase), ..usual };
        check(&spec)?;
        let request = Request { spec, progress: progress(&counted) };
        let start = |command: &mut std::process::Command| launched(command.stderr(Stdio::null()), asked.class);
        let asked = request::Asked::start(&request, start).context("cannot start the antagonist")?;
        Ok(Antagonist { asked, counted })
    }

    /// Waits until it works.
    ///
    /// # Errors
    /// If it ends, or does not begin within 20 s.
    pub fn begun(mut self) -> Result<Antagonist> {
        let begun = Instant::now();
        while Progress::open(&progress(&self.counted))?.is_none_or(|progress| progress.started_ns().is_none()) {
            if let Some(status) = self.asked.ended()? {
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
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.asked.id().cast_signed()
    }

    /// Ends it and returns its report.
    ///
    /// # Errors
    /// If it failed.
    pub fn end(self) -> Result<AntagonistReport> {
        let process = Pid::from_raw(self.pid()).context("an antagonist without a number")?;
        kill_process(process, Signal::TERM).context("cannot end the antagonist")?;
        self.asked.answer()
    }
}

/// A path to it for both processes.
fn progress(counted: &OwnedFd) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), counted.as_raw_fd()).into()
}
