//! cpuset partitions: CPUs that leave the others' sets and are balanced by themselves, or not at all.

use quell_model::CpuSet;

use super::Kernel;
use super::state::{GroupId, TaskId};
use crate::domains::Domains;
pub use crate::tree::Partition;

impl Kernel {
    /// Makes a group's CPUs a partition, or gives them back. A group without CPUs of its own is none.
    pub fn set_partition(&mut self, group: GroupId, partition: Partition) {
        if std::mem::replace(&mut self.tree.groups[group.0 as usize].partition, partition) != partition {
            self.rebuild_partitions();
        }
    }

    /// CPUs or partitions of groups changed.
    pub(crate) fn rebuild_partitions(&mut self) {
        let is_one = |group: &GroupId| {
            let seen = &self.tree.groups[group.0 as usize];
            seen.partition != Partition::Member && seen.cpus.is_some()
        };
        self.tree.partitions = (0..self.tree.groups.len() as u32).map(GroupId).filter(is_one).collect();
        let mut rest = self.topology.all();
        let mut balanced = Vec::new();
        for group in &self.tree.partitions {
            let seen = &self.tree.groups[group.0 as usize];
            let own = seen.cpus.unwrap_or_default().intersection(&rest);
            rest = rest.difference(&own);
            if seen.partition == Partition::Root {
                balanced.push(own);
            }
        }
        balanced.push(rest);
        self.domains = Domains::of(&self.topology, &balanced);
        for cpu in 0..self.cpus.len() {
            self.cpus[cpu].balance = vec![(0, 0); self.domains.of_cpu(cpu).len()];
        }
        (0..self.tasks.len() as u32).for_each(|task| self.refresh_allowed(TaskId(task)));
    }

    /// CPUs of partitions that are none of these groups.
    pub(crate) fn taken_from(&self, path: &[GroupId]) -> CpuSet {
        let others = self.tree.partitions.iter().filter(|group| !path.contains(group));
        others.fold(CpuSet::EMPTY, |taken, group| {
            taken.union(&self.tree.groups[group.0 as usize].cpus.unwrap_or_default())
        })
    }
}
