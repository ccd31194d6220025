//! What surrounds a scene of real threads: the kernel's preemption mode, and a sched_ext scheduler that is not Quell's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quell_evidence::Treatment;
use quell_linux::debugfs::preempt;
use quell_model::SchedClass;
use quell_sim::KernelConfig;
use quell_sim::scenario::Scenario;
use tempfile::NamedTempFile;

use quell_command::programs::launched;

/// The kernel checks a scheduler's programs before it takes them: minutes on a slow CPU.
const PATIENCE: Duration = Duration::from_secs(900);
const STATE: &str = "/sys/kernel/sched_ext/state";

/// Ends the scheduler and sets the mode back when it is dropped.
#[derive(Default)]
pub struct Around {
    scheduler: Option<(Child, NamedTempFile)>,
    mode_before: Option<String>,
}

/// Does a sched_ext scheduler run?
pub fn has_sched_ext() -> bool {
    fs::read_to_string(STATE).is_ok_and(|state| state.trim() == "enabled")
}

impl Around {
    /// Sets the mode, if the scene has another than usual, and starts the treatment's scheduler, if it has one.
    pub fn start(treatment: &Treatment, scenario: &Scenario) -> Result<Around> {
        let mut around = Around::default();
        let mode = scenario.kernel.preemption;
        if mode != KernelConfig::default().preemption {
            let path = mode_file();
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            around.mode_before = text.split(['(', ')']).nth(1).map(str::to_owned);
            set_mode(preempt::word(mode))?;
        }
        if let [program, words @ ..] = &treatment.sched_ext[..] {
            let log = NamedTempFile::new().context("make a file for the scheduler's output")?;
            let mut command = Command::new(program);
            command.args(words).stdin(Stdio::null()).stdout(log.reopen()?).stderr(log.reopen()?);
            let child = launched(&mut command, SchedClass::NORMAL).with_context(|| format!("start {program}"))?;
            around.scheduler = Some((child, log));
            let begun = Instant::now();
            while !has_sched_ext() {
                around.is_there()?;
                if begun.elapsed() > PATIENCE {
                    bail!("{program} does not run after {PATIENCE:?}: {}", around.said());
                }
                sleep(Duration::from_millis(100));
            }
            eprintln!("quell-lab: {program} runs after {:.1} s", begun.elapsed().as_secs_f64());
        }
        Ok(around)
    }

    /// The scheduler must not have ended.
    pub fn is_there(&mut self) -> Result<()> {
        match self.scheduler.as_mut().map(|(child, _)| child.try_wait()).transpose()?.flatten() {
            None => Ok(()),
            Some(status) => bail!("the sched_ext scheduler ended: {status}: {}", self.said()),
        }
    }

    fn said(&self) -> String {
        let log = self.scheduler.as_ref().and_then(|(_, log)| fs::read_to_string(log.path()).ok()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("; ")
    }
}

impl Drop for Around {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.scheduler {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(Err(error)) = self.mode_before.as_deref().map(set_mode) {
            eprintln!("quell-lab: {error:#}");
        }
    }
}

fn mode_file() -> PathBuf {
    preempt::path(Path::new("/sys"))
}

fn set_mode(word: &str) -> Result<()> {
    let path = mode_file();
    fs::write(&path, word).with_context(|| format!("write {word} to {}", path.display()))
}
