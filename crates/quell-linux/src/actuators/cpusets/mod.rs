//! The CPUs of cgroups.

mod order;

pub(crate) use order::{Change, order, usable_above};

use quell_model::{Capabilities, KnobKind};

use super::{Actuator, Aim, Draft, Here};
use crate::LinuxError;
use crate::write::{Place, Value};

/// `cpuset.cpus`.
pub(super) struct Cpusets;

impl Actuator for Cpusets {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        let threads = format!("by affinity; new threads are bound within {}", here.options.scan_interval);
        found.knobs.insert(KnobKind::Cpus, here.by_level(&threads));
    }

    /// The CPU sets of all workloads' cgroups together.
    fn set(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        let mut changes = Vec::new();
        let mut owners = Vec::new();
        for (subject, group) in aim.groups() {
            let path = group.join("cpuset.cpus");
            let origin = draft.ledger.origin(&Place::File(path.clone())).cloned();
            let to = match (&subject.wanted.cpus, origin) {
                (Some(cpus), _) => draft.fitting(subject, cpus)?.to_string(),
                (None, Some(Value::Text(origin))) => origin,
                _ => continue,
            };
            let Some(now) = draft.text(&path)? else { continue };
            changes.push(Change { group: group.to_owned(), now, to });
            owners.push(subject.id);
        }
        for step in order(&changes, &|group| usable_above(group, draft.cgroup_root, &draft.online))? {
            let place = Place::File(changes[step.change].group.join("cpuset.cpus"));
            draft.set(Some(owners[step.change]), place, Value::Text(step.text))?;
        }
        Ok(())
    }
}
