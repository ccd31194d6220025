//! Weights, and idle-only: of cgroups here; of single threads as nice values and classes ([`super::classes`]), or as weights of
//! groups of their own ([`super::threaded`]).

use std::path::Path;

use quell_model::{Capabilities, KnobKind, foreign};

use super::{Actuator, Aim, Draft, Here, Subject, threaded};
use crate::LinuxError;
use crate::write::{Place, Value, Write};

/// `cpu.weight` and `cpu.idle`.
pub(super) struct Shares;

impl Actuator for Shares {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        let weight = here.by_level("by nice values; autogroups compete as groups, so they count within a session only");
        let idle = here.by_level("by SCHED_IDLE; autogroups compete as groups, so it works within a session only");
        found.knobs.extend([(KnobKind::Weight, weight), (KnobKind::IdleOnly, idle)]);
    }

    fn set(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        aim.with_groups().try_for_each(|subject| shares(draft, subject))?;
        threaded::weights(aim, draft)
    }
}

/// `cpu.idle` and `cpu.weight`. A weight cannot be written while `cpu.idle` is 1, and is back at its
/// default of 100 when that ends.
fn shares(draft: &mut Draft<'_>, subject: &Subject<'_>) -> Result<(), LinuxError> {
    let wanted = &subject.wanted;
    for group in &subject.resolved.groups {
        let (idle, weight) = (group.path.join("cpu.idle"), group.path.join("cpu.weight"));
        if wanted.idle == Some(true) && draft.text(&idle)?.is_none() && group.path.is_dir() {
            let what = format!("{} is not there", foreign::path(&idle));
            return Err(LinuxError::unsupported(what, "use a kernel from 5.15 on, or a small weight"));
        }
        if wanted.idle != Some(true) {
            let was_idle = draft.text(&idle)?.as_deref() == Some("1");
            draft.want(subject, &idle, wanted.idle.map(|idle| u8::from(idle).to_string()))?;
            if was_idle && draft.text(&idle)?.as_deref() == Some("0") {
                weight_is_default_again(draft, subject, &weight)?;
            }
        }
        if draft.text(&idle)?.as_deref() != Some("1") {
            draft.want(subject, &weight, wanted.weight.map(|weight| weight.to_string()))?;
        }
        if wanted.idle == Some(true) {
            draft.want(subject, &idle, Some("1".into()))?;
        }
    }
    Ok(())
}

/// The weight had been changed before the group became idle: the kernel has forgotten it.
fn weight_is_default_again(draft: &mut Draft<'_>, subject: &Subject<'_>, path: &Path) -> Result<(), LinuxError> {
    let wanted = subject.wanted.weight.map(|weight| weight.to_string());
    let place = Place::File(path.to_owned());
    let origin = draft.ledger.origin(&place).cloned();
    let after = match (wanted, &origin) {
        (Some(text), _) => Value::Text(text),
        (None, Some(origin)) => origin.clone(),
        (None, None) => return Ok(()),
    };
    let before = Value::Text("100".into());
    if before != after {
        let origin = origin.unwrap_or_else(|| before.clone());
        draft.push(Write { workload: Some(subject.id), place, origin, before, after });
    }
    Ok(())
}
