//! Keeps the limits of workloads, whatever policies do.

use quell_model::{Workload, WorkloadId};

use super::LinuxHost;
use crate::LinuxError;
use crate::actuators::{Actuator, Aim, Draft, Quota};
use crate::limit::{LimitState, holds_quell, limit_obstacle, place};
use crate::members::{Members, Resolved};

impl LinuxHost {
    /// Is a workload's limit kept, and how? None if it has none, or is not attached.
    #[must_use]
    pub fn limit_state(&self, id: WorkloadId) -> Option<&LimitState> {
        self.standing.limits.get(id.index())?.as_ref()
    }

    /// [`crate::limit_obstacle`] for this host.
    #[must_use]
    pub fn limit_obstacle(&self, workload: &Workload) -> Option<String> {
        limit_obstacle(&self.members.roots, &self.members.options, workload)
    }

    /// A workload's limit has not been scanned yet.
    pub(super) fn begin_limit(&mut self, id: WorkloadId, workload: &Workload) {
        if self.standing.limits.len() <= id.index() {
            self.standing.limits.resize(id.index() + 1, None);
        }
        self.standing.limits[id.index()] =
            workload.limit.map(|_| LimitState::NotKept("it has not been scanned yet".into()));
    }

    /// Keeps every limit that can be kept. To be called where cgroups came or went: one that lies within another's is a
    /// reason not to keep the outer's limit.
    pub(super) fn settle_limits(&mut self) {
        (0..self.members.slots.len()).for_each(|slot| self.settle_limit(WorkloadId(slot as u32)));
    }

    /// Keeps a workload's limit, in writes of its own: one that is refused keeps no policy from its work.
    pub(super) fn settle_limit(&mut self, id: WorkloadId) {
        if self.suspended {
            return;
        }
        let Some(state) = self.limit_to_be(id) else { return };
        self.standing.limits[id.index()] = Some(state);
        if let Err(error) = self.write_limit(id) {
            self.standing.limits[id.index()] = Some(LimitState::NotKept(error.to_string()));
            self.due.workloads.push(id);
        }
    }

    fn write_limit(&mut self, id: WorkloadId) -> Result<(), LinuxError> {
        let (members, standing) = (&self.members, &self.standing);
        let workloads = standing.subject(id, members).into_iter().collect();
        let overrides = &standing.values.overrides;
        let aim = Aim {
            workloads,
            threads: &members.threads,
            overrides,
            preemption: None,
            frequencies: None,
            gpu_khz: None,
            everyone: Vec::new(),
        };
        let mut draft = Draft::new(&mut self.writes, members);
        Quota.set(&aim, &mut draft)?;
        let writes = draft.finish();
        self.make(&writes)
    }

    /// Could it be kept now? None if nothing is to be kept.
    fn limit_to_be(&self, id: WorkloadId) -> Option<LimitState> {
        let member = self.members.get(id)?;
        self.limit_state(id)?;
        let Members { roots, options, selectors, .. } = &self.members;
        let own = self.members.resolved(id)?;
        let found = place(member.spec.limit?, own, roots, options).and_then(|file| {
            let group = file.parent().unwrap_or(&file);
            if holds_quell(group, roots) {
                return Err("Quell itself runs in its cgroup and would be limited too; start Quell as a unit".into());
            }
            let within = |other: &&(WorkloadId, Resolved)| {
                other.0 != id && other.1.group_paths().any(|path| path.starts_with(group))
            };
            let name = selectors.iter().find(within).and_then(|(other, _)| Some(&self.members.get(*other)?.spec.name));
            match name {
                Some(name) => Err(format!(
                    "its cgroup holds that of workload '{name}', which would be limited too; select cgroups side by side"
                )),
                None => Ok(file),
            }
        });
        Some(found.map_or_else(LimitState::NotKept, LimitState::Kept))
    }
}
