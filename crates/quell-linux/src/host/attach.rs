//! Workloads come, change and go.

use quell_model::{Event, SoloEnd, Workload, WorkloadId};

use super::LinuxHost;
use crate::clock;
use crate::members::Resolved;
use crate::write::{Place, RestoreReport, Value, Write};
use crate::{LinuxError, cgroup};

impl LinuxHost {
    /// Begins to manage a workload. But for its limit nothing is set on it until a policy asks.
    ///
    /// # Errors
    /// If its numbers contradict each other, its name is taken, one of its selectors matches nothing, or a cgroup of
    /// it belongs to another workload already.
    pub fn attach(&mut self, workload: Workload) -> Result<WorkloadId, LinuxError> {
        if !self.suspended {
            self.scheduler.check(&workload)?;
        }
        let resolved = self.members.resolve(&workload, None)?;
        let id = self.members.next_id();
        self.enable_controllers(id, &resolved)?;
        self.sensors.begin(id, &resolved.groups)?;
        if !self.suspended {
            self.scheduler.attach(id, &workload)?;
        }
        if workload.is_lc() && !workload.pausable {
            self.end_solos(SoloEnd::Interrupted, clock::now());
        }
        self.writes.journal.attached(id, &workload.name);
        self.begin_limit(id, &workload);
        self.standing.values.clear(Some(id));
        self.members.add(id, workload, resolved);
        self.settle_limits();
        self.look_at_allowance_of(id);
        self.pending.push(Event::Attached(id));
        Ok(id)
    }

    /// Changes a workload's description. Its standing values stay; settings on cgroups that are no longer its own are
    /// restored.
    ///
    /// # Errors
    /// As [`LinuxHost::attach`]; then nothing changed.
    pub fn update(&mut self, id: WorkloadId, workload: Workload) -> Result<(), LinuxError> {
        self.members.get_mut(id)?;
        if !self.suspended {
            self.scheduler.check(&workload)?;
        }
        let resolved = self.members.resolve(&workload, Some(id))?;
        self.begin_limit(id, &workload);
        self.sensors.groups_changed(id);
        let left = self.members.change(id, workload, resolved)?;
        self.leave_groups(&left);
        self.settle_limits();
        self.look_at_allowance_of(id);
        self.pending.push(Event::Attached(id));
        self.due.workloads.push(id);
        match self.members.get(id) {
            Some(member) if !self.suspended => self.scheduler.update(id, &member.spec),
            _ => Ok(()),
        }
    }

    /// Restores the settings on a workload and stops managing it.
    ///
    /// # Errors
    /// If there is no such workload.
    pub fn detach(&mut self, id: WorkloadId) -> Result<RestoreReport, LinuxError> {
        self.members.get_mut(id)?;
        self.end_solo(id, SoloEnd::Detached, clock::now());
        let report = self.restore_workload(id);
        self.standing.values.clear(Some(id));
        self.rules.forget(id);
        self.members.remove(id);
        self.settle_limits();
        self.pending.push(Event::Detached(id));
        if !self.suspended {
            self.scheduler.detach(id)?;
        }
        Ok(report)
    }

    /// Enables the cpu and cpuset controllers for a workload's cgroups, from the root down, where the options allow it
    /// and the root has them.
    fn enable_controllers(&mut self, id: WorkloadId, resolved: &Resolved) -> Result<(), LinuxError> {
        if !self.members.options.enable_controllers || resolved.selects_processes() {
            return Ok(());
        }
        let needed = ["cpu", "cpuset"];
        let has = |names: &str| needed.iter().all(|name| names.split(' ').any(|other| other == *name));
        if !cgroup::controllers_here(&self.members.roots.cgroup)?.is_some_and(|names| has(&names)) {
            return Ok(());
        }
        let mut writes: Vec<Write> = Vec::new();
        for group in resolved.groups.iter().filter(|group| !group.has_controllers()) {
            let root = &self.members.roots.cgroup;
            let mut above: Vec<_> = group.path.ancestors().skip(1).take_while(|path| path.starts_with(root)).collect();
            above.reverse();
            for parent in above {
                let place = Place::Controllers(parent.to_owned());
                let Some(given) = cgroup::controllers_given(parent)? else { continue };
                if has(&given) || writes.iter().any(|write| write.place == place) {
                    continue;
                }
                let mut names: Vec<&str> = given.split_whitespace().chain(needed).collect();
                names.sort_unstable();
                names.dedup();
                let (before, after) = (Value::Text(given.clone()), Value::Text(names.join(" ")));
                writes.push(Write { workload: Some(id), place, origin: before.clone(), before, after });
            }
        }
        self.make(&writes)
    }
}
