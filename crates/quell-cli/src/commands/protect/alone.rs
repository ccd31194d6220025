//! Without an agent: this process protects, under a guardian.

use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use quell_agent::guardian::Worker;
use quell_model::Selector;
use quell_policy::AnyPolicy;

use super::course::{Course, End};
use crate::commands::managed::demand::Steps;
use crate::commands::managed::{self, CAUGHT, Subject, Terms};

/// Protects until an end.
///
/// # Errors
/// If it cannot be protected.
pub fn run(course: Course<'_>, policy: AnyPolicy, follows: Option<Steps>) -> Result<ExitCode> {
    let say = course.arguments.wanted.asked.say();
    let terms = Terms {
        command: "protect",
        workload: course.workload.clone(),
        policy,
        keeps_orphans: false,
        follows,
        say,
        again: false,
    };
    let status = managed::under_guardian(&terms, &mut |worker| {
        for signal in CAUGHT {
            signal_hook::flag::register(signal, Arc::clone(worker.stop())).context("cannot catch signals")?;
        }
        Ok(Ok((Running { course: &course, handles: course.subject.handles()? }, None)))
    })?;
    Ok(ExitCode::from(if status == managed::FAILED { 1 } else { status }))
}

/// Processes that run already.
struct Running<'a> {
    course: &'a Course<'a>,
    handles: Vec<OwnedFd>,
}

impl Subject for Running<'_> {
    fn selectors(&self) -> Vec<Selector> {
        self.course.subject.selectors.clone()
    }

    fn wait(&mut self, worker: &Worker, _: &dyn Fn(String)) -> Result<u8> {
        let mut goes_on = || !worker.stop().load(Ordering::Acquire);
        let end = self.course.run(std::mem::take(&mut self.handles), "this process", &mut goes_on)?;
        self.course.say_end(end);
        Ok(u8::from(end == End::Ended))
    }
}
