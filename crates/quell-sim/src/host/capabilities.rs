//! What the simulated host can measure, set and do: the sum of what its parts say.

use quell_model::{Capabilities, Support};

use super::sensors::Sensors;
use super::{Lending, actuators};
use crate::contention::MeasuredOfMemory;

/// What the simulated host has. It says so without a machine, so that a scenario can be checked before it runs.
#[must_use]
pub fn capabilities(lending: Lending, of_memory: MeasuredOfMemory) -> Capabilities {
    let mut has = Capabilities { host: "sim".into(), ..Capabilities::default() };
    Sensors::default().report(of_memory, &mut has);
    actuators::report(of_memory, &mut has);
    lending.report(&mut has);
    has
}

/// Why what is known of caches and memory is not.
pub(super) fn no_contention() -> Support {
    Support::No {
        why: "no workload of this scenario has a profile, or contention is off".into(),
        fix: "give workloads profiles: the simulator models caches and memory then".into(),
    }
}
