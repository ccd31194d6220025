//! Keeps the limits of workloads, whatever policies do.

use quell_model::{Workload, WorkloadId};

use super::{LinuxHost, resolved};
use crate::LinuxError;
use crate::knobs::Compiler;
use crate::limit::{LimitState, holds_quell, limit_obstacle, place};

/// A limit that has not been looked at yet.
pub(super) fn undecided(workload: &Workload) -> Option<LimitState> {
    workload.limit.map(|_| LimitState::NotKept("it has not been looked at yet".into()))
}

impl LinuxHost {
    /// Is a workload's limit kept, and how? None if it has none, or is not attached.
    #[must_use]
    pub fn limit_state(&self, id: WorkloadId) -> Option<&LimitState> {
        self.managed(id)?.limit.as_ref()
    }

    /// [`crate::limit_obstacle`] for this host.
    #[must_use]
    pub fn limit_obstacle(&self, workload: &Workload) -> Option<String> {
        limit_obstacle(&self.roots, &self.options, workload)
    }

    /// Keeps every limit that can be kept. To be called where cgroups came or went: one that lies within another's is a
    /// reason not to keep the outer's limit.
    pub(super) fn settle_limits(&mut self) {
        (0..self.slots.len()).for_each(|slot| self.settle_limit(WorkloadId(slot as u32)));
    }

    /// Keeps a workload's limit, in writes of its own: one that is refused keeps no policy from its work.
    pub(super) fn settle_limit(&mut self, id: WorkloadId) {
        let Some(state) = self.limit_to_be(id) else { return };
        let set = |host: &mut LinuxHost, state| {
            if let Ok(managed) = host.managed_mut(id) {
                managed.limit = Some(state);
            }
        };
        set(self, state);
        if let Err(error) = self.write_limit(id) {
            set(self, LimitState::NotKept(error.to_string()));
            self.unsettled.push(id);
        }
    }

    fn write_limit(&mut self, id: WorkloadId) -> Result<(), LinuxError> {
        let (Some(managed), Some(resolved)) =
            (self.slots.get(id.index()).and_then(Option::as_ref), resolved(&self.selectors, id))
        else {
            return Ok(());
        };
        let subject = managed.subject(id, resolved, &self.solo);
        let mut compiler = Compiler::new(&mut *self.medium, &self.ledger, self.online, &self.roots.cgroup);
        compiler.quota(&subject)?;
        let writes = compiler.finish();
        self.make(&writes)
    }

    /// Could it be kept now? None if nothing is to be kept.
    fn limit_to_be(&self, id: WorkloadId) -> Option<LimitState> {
        let managed = self.managed(id)?;
        managed.limit.as_ref()?;
        let own = resolved(&self.selectors, id)?;
        let found = place(managed.spec.limit?, own, &self.roots, &self.options).and_then(|file| {
            let group = file.parent().unwrap_or(&file);
            if holds_quell(group, &self.roots) {
                return Err("Quell itself runs in its cgroup and would be limited too; start Quell as a unit".into());
            }
            let within = |other: &&(WorkloadId, crate::members::Resolved)| {
                other.0 != id && other.1.group_paths().any(|path| path.starts_with(group))
            };
            let name = self.selectors.iter().find(within).and_then(|(other, _)| Some(&self.managed(*other)?.spec.name));
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
