//! Who is managed: workloads in their slots, with what was set on each where it is not the kernel that keeps it.

use std::sync::Arc;

use quell_model::{CpuSet, View, Workload, WorkloadId};

use crate::kernel::Partition;

/// A workload that is attached.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub spec: Arc<Workload>,
    /// `cpuset.cpus`; None: every CPU that is in no other's partition.
    pub cpus: Option<CpuSet>,
    /// The same before any policy.
    pub own_cpus: Option<CpuSet>,
    pub partition: Partition,
    pub paused: bool,
}

/// All of them, by slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Members(Vec<Option<Member>>);

impl Members {
    pub fn of(members: impl IntoIterator<Item = Member>) -> Members {
        Members(members.into_iter().map(Some).collect())
    }

    /// How many slots there are, the empty ones included.
    pub fn slots(&self) -> usize {
        self.0.len()
    }

    /// The first slot that is empty, or a new one.
    pub fn free(&self) -> WorkloadId {
        WorkloadId(self.0.iter().position(Option::is_none).unwrap_or(self.0.len()) as u32)
    }

    pub fn get(&self, id: WorkloadId) -> Option<&Member> {
        self.0.get(id.index())?.as_ref()
    }

    pub fn get_mut(&mut self, id: WorkloadId) -> Option<&mut Member> {
        self.0.get_mut(id.index())?.as_mut()
    }

    pub fn has(&self, id: WorkloadId) -> bool {
        self.get(id).is_some()
    }

    /// Those that are attached, in the order of their slots.
    pub fn each(&self) -> impl Iterator<Item = (WorkloadId, &Member)> {
        self.0.iter().enumerate().filter_map(|(slot, member)| Some((WorkloadId(slot as u32), member.as_ref()?)))
    }

    /// A workload comes into a slot that is empty or new.
    pub fn attach(&mut self, id: WorkloadId, member: Member) {
        self.0.resize(self.0.len().max(id.index() + 1), None);
        self.0[id.index()] = Some(member);
    }

    pub fn detach(&mut self, id: WorkloadId) -> Option<Member> {
        self.0.get_mut(id.index())?.take()
    }

    /// Says in the view who there is. What it says already is left alone.
    pub fn report(&self, view: &mut View) {
        let specs = &mut view.workloads.spec;
        specs.resize(self.0.len(), None);
        for (known, member) in specs.iter_mut().zip(&self.0) {
            let is_known = match (&*known, member) {
                (Some(known), Some(member)) => Arc::ptr_eq(known, &member.spec),
                (known, member) => known.is_none() && member.is_none(),
            };
            if !is_known {
                *known = member.as_ref().map(|member| Arc::clone(&member.spec));
            }
        }
    }
}
