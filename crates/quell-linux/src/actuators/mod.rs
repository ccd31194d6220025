//! The host's settings, a file or folder each. To add a knob: a file with an [`Actuator`], its line in [`ACTUATORS`],
//! and its value in [`Wanted`].
//!
//! From the policies' targets to an ordered list of writes, which are made all or none. The order keeps every
//! intermediate state harmless: stops come first; partitions end before their CPUs move; CPU sets of cgroups shrink,
//! then grow from the parents down, then shrink from the children up; threads lose real-time classes before others get
//! them; a partition is claimed when its CPUs have been taken from all other workloads; resumes come last.

mod affinity;
mod aim;
mod classes;
pub(crate) mod cpusets;
mod draft;
mod freezer;
mod frequency;
mod gpu;
mod here;
mod latency;
mod memory;
mod partitions;
mod preemption;
mod quota;
mod resctrl;
mod shares;
mod solo;
mod standing;
mod threaded;
mod wanted;
mod ways;

pub(crate) use aim::{Aim, Subject};
pub(crate) use draft::Draft;
pub(crate) use frequency::check_frequencies;
pub(crate) use here::Here;
pub(crate) use quota::Quota;
pub(crate) use resctrl::check_groups;
pub(crate) use standing::Standing;
pub(crate) use wanted::Wanted;

use quell_model::{Capabilities, Support};

use crate::LinuxError;
use crate::members::Members;

/// Sets some knobs. It is stateless: the target state is in the aim, the changes are in the draft's ledger.
pub(crate) trait Actuator: Sync {
    /// Reports the knobs that it sets here, and how well.
    fn report(&self, here: &Here<'_>, found: &mut Capabilities);

    /// Refuses impossible settings of a workload.
    ///
    /// # Errors
    /// The reason, and the fix.
    fn check(&self, _subject: &Subject<'_>) -> Result<(), LinuxError> {
        Ok(())
    }

    /// Drafts the writes that stop work: the first phase of five.
    ///
    /// # Errors
    /// If the machine cannot be read, or lacks something needed.
    fn stop(&self, _aim: &Aim<'_>, _draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        Ok(())
    }

    /// … then those that release exclusive resources.
    ///
    /// # Errors
    /// If the machine cannot be read, or lacks something needed.
    fn release(&self, _aim: &Aim<'_>, _draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        Ok(())
    }

    /// … then those that set values.
    ///
    /// # Errors
    /// If the machine cannot be read, or lacks something needed.
    fn set(&self, _aim: &Aim<'_>, _draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        Ok(())
    }

    /// … then those that claim exclusive resources.
    ///
    /// # Errors
    /// If the machine cannot be read, or lacks something needed.
    fn claim(&self, _aim: &Aim<'_>, _draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        Ok(())
    }

    /// … then those that resume work.
    ///
    /// # Errors
    /// If the machine cannot be read, or lacks something needed.
    fn resume(&self, _aim: &Aim<'_>, _draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        Ok(())
    }
}

type Moment = fn(&dyn Actuator, &Aim<'_>, &mut Draft<'_>) -> Result<(), LinuxError>;

/// The moments of a transaction, in their order.
const MOMENTS: [Moment; 5] = [
    |actuator, aim, draft| actuator.stop(aim, draft),
    |actuator, aim, draft| actuator.release(aim, draft),
    |actuator, aim, draft| actuator.set(aim, draft),
    |actuator, aim, draft| actuator.claim(aim, draft),
    |actuator, aim, draft| actuator.resume(aim, draft),
];

/// All, in the order in which they write at each moment.
const ACTUATORS: [&dyn Actuator; 13] = [
    &preemption::Preemption,
    &freezer::Freezer,
    &partitions::Partitions,
    &cpusets::Cpusets,
    &memory::Memory,
    &resctrl::Groups,
    &frequency::Frequency,
    &gpu::Gpu,
    &shares::Shares,
    &Quota,
    &affinity::Affinity,
    &classes::Classes,
    &latency::Latency,
];

/// Reports the actuators' knobs here.
pub(crate) fn report(members: &Members, found: &mut Capabilities) {
    let here = Here::of(members);
    ACTUATORS.iter().for_each(|actuator| actuator.report(&here, found));
}

/// Drafts all writes that make an aim true.
pub(crate) fn write(aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
    for subject in &aim.workloads {
        ACTUATORS.iter().try_for_each(|actuator| actuator.check(subject))?;
    }
    for moment in MOMENTS {
        ACTUATORS.iter().try_for_each(|actuator| moment(*actuator, aim, draft))?;
    }
    Ok(())
}

/// The fix where a knob is one of cgroups alone.
const NO_CGROUP: &str = "select it by a cgroup or unit that has the cpu and cpuset controllers (cgroup v2)";

/// A knob that the configuration does not allow.
fn forbidden(why: &str, key: &str) -> Support {
    Support::No {
        why: format!("{why} and is not allowed"),
        fix: format!("allow it with {key} = true in the configuration"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quell_model::{KnobKind, Topology};

    use super::*;
    use crate::HostOptions;
    use crate::testkit::FakeTree;

    #[test]
    fn each_knob_is_one_actuators_and_all_are_answered() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
        let members = Members::new(tree.roots(), HostOptions::default()).unwrap();
        let mut known = BTreeSet::new();
        for actuator in ACTUATORS {
            let mut found = Capabilities::default();
            actuator.report(&Here::of(&members), &mut found);
            found.knobs.into_keys().for_each(|kind| assert!(known.insert(kind), "{kind:?}"));
        }
        let mut found = Capabilities::default();
        report(&members, &mut found);
        assert!(KnobKind::ALL.iter().all(|kind| found.knobs.contains_key(kind)), "{found:?}");
    }
}
