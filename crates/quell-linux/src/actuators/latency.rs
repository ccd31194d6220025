//! Wake-up latencies of threads: slices of their own, set with the classes ([`super::classes`]). Warps: nothing here has them.

use quell_model::{Capabilities, KnobKind, Support};

use super::{Actuator, Here};
use crate::sched::Kernel;

/// Linux's slices of single threads.
pub(super) struct Latency;

impl Actuator for Latency {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        // A tree of plain files has no kernel: everything is allowed.
        let has_slices = !here.roots.is_this_machine() || Kernel::new().is_ok_and(|kernel| kernel.has_slices());
        let slices = match has_slices {
            true => Support::Partly(
                "as slices of EEVDF, which are the quantum, too; under lazy preemption a woken thread waits for the tick".into(),
            ),
            // The kernel would take the value and ignore it.
            false => Support::No {
                why: "threads have no slices of their own on this kernel".into(),
                fix: "use Linux 6.12 or later".into(),
            },
        };
        let why = "Linux has no borrowed virtual time".into();
        found.knobs.insert(KnobKind::WakeUpLatency, slices);
        found.knobs.insert(KnobKind::Warp, Support::No { why, fix: "use the simulator, with fair = \"bvt\"".into() });
    }
}
