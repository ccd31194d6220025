//! Without an agent: this process protects and does not, under a guardian.

use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use quell_agent::AgentError;
use quell_agent::guardian::{RunDir, Worker};
use quell_linux::write::Journal;
use quell_model::Selector;

use super::Policies;
use super::course::{Course, Switched, Work};
use super::output;
use crate::commands::managed::{self, CAUGHT, Subject, Terms};

/// Runs it; everything is as before at its end.
///
/// # Errors
/// If there can be no guardian, or another experiment runs.
pub fn run(course: Course<'_>, policies: &Policies) -> Result<ExitCode> {
    // One at a time; the worker inherits it.
    let _claim = match RunDir::locate(None)?.claim("prove") {
        Err(AgentError::Running { pid, .. }) => {
            bail!("process {pid} proves already: wait for its end, or stop it (Ctrl-C)")
        }
        claim => claim?,
    };
    let status = managed::guarded("prove", false, &mut |worker, journal, socket| {
        for signal in CAUGHT {
            for flag in [worker.stop(), &course.stop] {
                signal_hook::flag::register(signal, Arc::clone(flag)).context("cannot catch signals")?;
            }
        }
        let mut alternating =
            Alternating { course: &course, policies, worker, journal: Some(journal), socket, again: Cell::new(false) };
        let outcome = course.run(&mut alternating)?;
        output::finish(&course, &outcome, &policies.on, "this process")
    })?;
    Ok(ExitCode::from(if status == managed::FAILED { 1 } else { status }))
}

struct Alternating<'a> {
    course: &'a Course<'a>,
    policies: &'a Policies,
    worker: &'a Worker,
    /// None: it could not be managed, and what was set is the guardian's to put back.
    journal: Option<Box<dyn Journal>>,
    socket: &'a Path,
    again: Cell<bool>,
}

impl Switched for Alternating<'_> {
    fn during(&mut self, on: bool, work: Work<'_>) -> Result<()> {
        let policy = if on { Some(&self.policies.on) } else { self.policies.off.as_ref() };
        let Some(policy) = policy else { return work(&mut || !self.worker.stop().load(Ordering::Acquire)) };
        let terms = Terms {
            command: "prove",
            workload: self.course.workload.clone(),
            policy: policy.clone(),
            keeps_orphans: false,
            follows: None,
            say: self.course.arguments.wanted.asked.say(),
            again: self.again.replace(true),
        };
        let mut block = Some(Protected { selectors: self.course.subject.selectors.clone(), work });
        let mut make = |_: &Worker| Ok(Ok((block.take().context("a block begins once")?, None)));
        let journal = self.journal.take().context("what the block before had set could not be put back")?;
        let (_, journal) = managed::once(&terms, self.worker, journal, &mut make, self.socket)?;
        self.journal = Some(journal);
        Ok(())
    }
}

/// A block under protection.
struct Protected<'a> {
    selectors: Vec<Selector>,
    work: Work<'a>,
}

impl Subject for Protected<'_> {
    fn selectors(&self) -> Vec<Selector> {
        self.selectors.clone()
    }

    fn wait(&mut self, worker: &Worker, _: &dyn Fn(String)) -> Result<u8> {
        (self.work)(&mut || !worker.stop().load(Ordering::Acquire))?;
        Ok(0)
    }
}
