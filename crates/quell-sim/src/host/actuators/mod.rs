//! What the host sets, a file each. To add a knob: a file with an [`Actuator`] and its line in [`ACTUATORS`].

mod classes;
mod cpusets;
mod freezer;
mod latency;
mod limits;
mod preemption;
mod quota;
mod shares;

use quell_model::{Capabilities, KnobSetting, Lease, Target, ThreadId};

use super::members::Members;
use crate::contention::MeasuredOfMemory;
use crate::kernel::TaskId;
use crate::{Kernel, Sim};

/// Sets some knobs. It knows the machine and who is managed, not the host, and keeps no state: what was set is the
/// kernel's, the machine's or the member's.
pub(super) trait Actuator: Sync {
    /// Says which knobs it sets where so much of memory can be measured.
    fn report(&self, of_memory: MeasuredOfMemory, found: &mut Capabilities);

    /// Sets a knob, if it is one of its own. Its target is there, its value within bounds.
    fn set(&self, setting: &KnobSetting, on: &mut On<'_>);

    /// What was set holds for who there is now, on the CPUs that there are, during this solo run if there is one.
    fn fit(&self, _on: &mut On<'_>) {}
}

/// What knobs are set on.
pub(super) struct On<'a> {
    pub members: &'a mut Members,
    pub sim: &'a mut Sim,
    /// The solo runs.
    pub leases: Vec<Lease>,
}

impl On<'_> {
    /// The threads that a setting is about, with the kernel that they are set in.
    fn threads(&mut self, target: Target) -> (Vec<TaskId>, &mut Kernel) {
        let threads = match target {
            Target::Workload(id) => self.sim.tenants[id.index()].tasks.clone(),
            Target::Thread(id) => task(id, &self.sim.kernel).into_iter().collect(),
            Target::Cpu(_) | Target::Machine => Vec::new(),
        };
        (threads, &mut self.sim.kernel)
    }
}

/// All, in the order in which they fit what was set.
const ACTUATORS: [&dyn Actuator; 8] = [
    &limits::Limits,
    &cpusets::Cpusets,
    &freezer::Freezer,
    &shares::Shares,
    &quota::Quota,
    &classes::Classes,
    &latency::Latency,
    &preemption::Preemption,
];

pub(super) fn report(of_memory: MeasuredOfMemory, found: &mut Capabilities) {
    ACTUATORS.iter().for_each(|actuator| actuator.report(of_memory, found));
}

pub(super) fn set(setting: &KnobSetting, on: &mut On<'_>) {
    ACTUATORS.iter().for_each(|actuator| actuator.set(setting, on));
}

pub(super) fn fit(on: &mut On<'_>) {
    ACTUATORS.iter().for_each(|actuator| actuator.fit(on));
}

/// A thread by the name that policies know it by, unless it is gone.
pub(super) fn task(id: ThreadId, kernel: &Kernel) -> Option<TaskId> {
    let number = u32::try_from(id.tid.checked_sub(1)?).ok()?;
    let is_there = kernel.tasks.get(number as usize).is_some_and(|task| !task.ended);
    (is_there && id.start == 0).then_some(TaskId(number))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quell_model::KnobKind;

    use super::*;

    #[test]
    fn each_knob_is_one_actuators_and_all_are_answered() {
        let mut known = BTreeSet::new();
        for actuator in ACTUATORS {
            let mut found = Capabilities::default();
            actuator.report(MeasuredOfMemory::Everything, &mut found);
            found.knobs.into_keys().for_each(|knob| assert!(known.insert(knob), "{knob:?}"));
        }
        assert!(KnobKind::ALL.iter().all(|knob| known.contains(knob)), "{known:?}");
    }
}
