//! Stops workloads, and lets them go on.

use quell_model::{Capabilities, KnobKind, Support, TargetKind};

use super::{Actuator, Aim, Draft, Here, Subject};
use crate::LinuxError;
use crate::members::Thread;
use crate::write::{Place, Value, Write};

/// `cgroup.freeze`, and signals where there is none.
pub(super) struct Freezer;

impl Actuator for Freezer {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        found.knobs.insert(KnobKind::Pause, here.by_level("by SIGSTOP, which the parent process notices"));
        let why = "the kernel stops processes and cgroups, not threads".to_owned();
        found.limit_on(KnobKind::Pause, TargetKind::Thread, Support::No { why, fix: "pause the workload".into() });
    }

    fn stop(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        pause(aim, draft, true)
    }

    fn resume(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        pause(aim, draft, false)
    }
}

/// Stops the workloads that are to stop, or lets the others continue: cgroups by their freezer, processes by signals.
/// (A shell that waits for such a process sees it stop.) A process that another program stopped is never continued.
fn pause(aim: &Aim<'_>, draft: &mut Draft<'_>, stop: bool) -> Result<(), LinuxError> {
    let concerned = |subject: &&Subject<'_>| (subject.wanted.pause == Some(true)) == stop;
    for subject in aim.workloads.iter().filter(concerned).filter(|subject| has_freezer(subject)) {
        for group in &subject.resolved.groups {
            let wanted = subject.wanted.pause.map(|pause| u8::from(pause).to_string());
            draft.want(subject, &group.path.join("cgroup.freeze"), wanted)?;
        }
    }
    for (thread, subject) in aim.threads() {
        if thread.is_first() && concerned(&subject) && !has_freezer(subject) {
            signal(draft, subject, thread, stop)?;
        }
    }
    Ok(())
}

fn signal(draft: &mut Draft<'_>, subject: &Subject<'_>, process: &Thread, stop: bool) -> Result<(), LinuxError> {
    let place = Place::Stopped(process.id);
    let before = match draft.ledger.touched(&place) {
        // A stop signal takes effect a little later than it is sent: the last signal sent counts.
        Some(touched) => Some(touched.last.clone()),
        None if stop => draft.read(&place)?,
        None => None,
    };
    let Some(before) = before else { return Ok(()) };
    let origin = draft.ledger.origin(&place).unwrap_or(&before).clone();
    let after = if stop { Value::Stopped(true) } else { origin.clone() };
    if before != after {
        draft.push(Write { workload: Some(subject.id), place, origin, before, after });
    }
    Ok(())
}

/// Can all of the workload be stopped by the freezers of its cgroups?
fn has_freezer(subject: &Subject<'_>) -> bool {
    !subject.resolved.groups.is_empty() && !subject.resolved.selects_processes()
}
