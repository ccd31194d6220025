//! Workloads come, change and go.

use std::path::PathBuf;
use std::sync::Arc;

use quell_model::{Event, Nanos, Sample, SoloEnd, Workload, WorkloadId};

use super::limit;
use super::usage::Usage;
use super::{Level, LinuxHost, Managed};
use crate::clock;
use crate::host::History;
use crate::knobs::Wanted;
use crate::members::{Places, Resolved};
use crate::write::{Place, RestoreReport, Value, Write};
use crate::{LinuxError, cgroup};

impl LinuxHost {
    /// Begins to manage a workload. But for its limit nothing is set on it until a policy asks.
    ///
    /// # Errors
    /// If its numbers contradict each other, its name is taken, one of its selectors matches nothing, or a cgroup of
    /// it belongs to another workload already.
    pub fn attach(&mut self, workload: Workload) -> Result<WorkloadId, LinuxError> {
        let resolved = self.resolve(&workload, None)?;
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        let id = WorkloadId(slot as u32);
        self.enable_controllers(id, &resolved)?;
        let managed = Managed {
            level: self.level_of(&resolved),
            usage: Usage::begin(&resolved.groups)?,
            standing: Wanted::default(),
            limit: limit::undecided(&workload),
            history: History::default(),
            run_time: Nanos::ZERO,
            run_delay: Nanos::ZERO,
            threads: 0,
            scanned: false,
            latency: Sample::default(),
            spec: Arc::new(workload),
        };
        if managed.spec.is_lc() && !managed.spec.pausable {
            self.end_solo(SoloEnd::Interrupted, clock::now());
        }
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.journal.attached(id, &managed.spec.name);
        self.slots[slot] = Some(managed);
        let at = self.selectors.partition_point(|(other, _)| *other < id);
        self.selectors.insert(at, (id, resolved));
        self.selectors_changed();
        self.settle_limits();
        self.pending.push(Event::Attached(id));
        Ok(id)
    }

    /// Changes a workload's description. Its standing values stay; what cgroups have that are not its any more is put back.
    ///
    /// # Errors
    /// As [`LinuxHost::attach`]; then nothing changed.
    pub fn update(&mut self, id: WorkloadId, workload: Workload) -> Result<(), LinuxError> {
        self.managed_mut(id)?;
        let resolved = self.resolve(&workload, Some(id))?;
        let level = self.level_of(&resolved);
        let managed = self.managed_mut(id)?;
        managed.limit = limit::undecided(&workload);
        managed.spec = Arc::new(workload);
        managed.level = level;
        managed.usage.groups_changed();
        if let Some((_, old)) = self.selectors.iter_mut().find(|(other, _)| *other == id) {
            let is_left = |group: &&PathBuf| !resolved.group_paths().any(|path| path == *group);
            let left: Vec<PathBuf> = old.group_paths().filter(is_left).cloned().collect();
            *old = resolved;
            self.leave_groups(&left);
        }
        self.selectors_changed();
        self.settle_limits();
        self.pending.push(Event::Attached(id));
        self.unsettled.push(id);
        Ok(())
    }

    /// Puts back what was set on a workload and stops to manage it.
    ///
    /// # Errors
    /// If there is no such workload.
    pub fn detach(&mut self, id: WorkloadId) -> Result<RestoreReport, LinuxError> {
        self.managed_mut(id)?;
        if self.solo_of() == Some(id) {
            self.end_solo(SoloEnd::Detached, clock::now());
        }
        let report = self.restore_workload(id);
        self.slots[id.index()] = None;
        self.selectors.retain(|(other, _)| *other != id);
        self.threads.retain(|thread| thread.workload != id);
        self.overrides.retain(|_, (owner, _)| *owner != id);
        self.selectors_changed();
        self.settle_limits();
        self.pending.push(Event::Detached(id));
        Ok(report)
    }

    /// The attached workloads.
    pub fn workloads(&self) -> impl Iterator<Item = (WorkloadId, &Workload)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, managed)| Some((WorkloadId(slot as u32), managed.as_ref()?.spec.as_ref())))
    }

    /// Where a workload's values are set; None if it is not attached.
    #[must_use]
    pub fn level(&self, id: WorkloadId) -> Option<Level> {
        self.managed(id).map(|managed| managed.level)
    }

    /// How many threads a workload had at the last scan; zero before its first, and when all its processes ended.
    #[must_use]
    pub fn thread_count(&self, id: WorkloadId) -> usize {
        self.managed(id).map_or(0, |managed| managed.threads as usize)
    }

    fn resolve(&mut self, workload: &Workload, of: Option<WorkloadId>) -> Result<Resolved, LinuxError> {
        workload.check()?;
        let others = || self.workloads().filter(|(id, _)| Some(*id) != of);
        if others().any(|(_, other)| other.name == workload.name) {
            let what = format!("there is a workload '{}' already", workload.name);
            return Err(LinuxError::unsupported(what, "give each workload a name of its own"));
        }
        let mut places = Places { roots: &self.roots, proc: &mut self.proc, exempt: self.members.exempt() };
        let resolved = places.resolve(workload)?;
        for (id, other) in self.selectors.iter().filter(|(id, _)| Some(*id) != of) {
            if let Some(group) =
                resolved.groups.iter().find(|group| other.group_paths().any(|path| *path == group.path))
            {
                let owner = self.managed(*id).map_or("", |managed| &managed.spec.name);
                let what = format!("{} belongs to workload '{owner}' already", group.path.display());
                return Err(LinuxError::unsupported(what, "select each cgroup for one workload only"));
            }
        }
        Ok(resolved)
    }

    fn level_of(&self, resolved: &Resolved) -> Level {
        let groups = &resolved.groups;
        let by_cgroup = !self.options.threads_only
            && !groups.is_empty()
            && !resolved.selects_processes()
            && groups.iter().all(cgroup::Group::has_controllers);
        if by_cgroup { Level::Cgroup } else { Level::Threads }
    }

    /// Enables the cpu and cpuset controllers for a workload's cgroups, from the root down, where the options allow it
    /// and the root has them.
    fn enable_controllers(&mut self, id: WorkloadId, resolved: &Resolved) -> Result<(), LinuxError> {
        if !self.options.enable_controllers || resolved.selects_processes() {
            return Ok(());
        }
        let needed = ["cpu", "cpuset"];
        let has = |names: &str| needed.iter().all(|name| names.split(' ').any(|other| other == *name));
        if !cgroup::controllers_here(&self.roots.cgroup)?.is_some_and(|names| has(&names)) {
            return Ok(());
        }
        let mut writes: Vec<Write> = Vec::new();
        for group in resolved.groups.iter().filter(|group| !group.has_controllers()) {
            let root = &self.roots.cgroup;
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
