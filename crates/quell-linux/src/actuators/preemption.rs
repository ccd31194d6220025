//! The machine's preemption mode.

use quell_model::{Capabilities, KnobKind, Support, foreign};

use super::{Actuator, Aim, Draft, Here, forbidden};
use crate::LinuxError;
use crate::debugfs::preempt;
use crate::write::{Place, Value};

const FIX: &str = "mount debugfs and use a kernel with CONFIG_PREEMPT_DYNAMIC";

/// The file in debugfs.
pub(super) struct Preemption;

impl Actuator for Preemption {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        let path = preempt::path(&here.roots.sys);
        let support = match (here.options.preemption_mode, path.exists()) {
            (false, _) => forbidden("it affects the whole machine", "machine.preemption"),
            (true, true) => Support::Yes,
            (true, false) => Support::No { why: format!("{} is not there", foreign::path(&path)), fix: FIX.into() },
        };
        found.knobs.insert(KnobKind::Preemption, support);
    }

    fn set(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        let Some(mode) = aim.preemption else { return Ok(()) };
        let path = preempt::path(draft.sys_root);
        if draft.text(&path)?.is_none() {
            return Err(LinuxError::unsupported(format!("{} is not there", foreign::path(&path)), FIX));
        }
        draft.set(None, Place::File(path), Value::Text(preempt::word(mode).into()))
    }
}
