//! What one policy instance owns: workloads, CPUs and knobs. Two instances that overlap are refused.

use serde::{Deserialize, Serialize};

use crate::{CpuSet, KnobKind, WorkloadId};

/// The part of the machine that one policy instance may decide about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// The workloads; None: all.
    pub workloads: Option<Vec<WorkloadId>>,
    /// The CPUs.
    pub pool: CpuSet,
    /// The knobs that it sets on them.
    pub knobs: Vec<KnobKind>,
}

/// What two scopes both claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// A knob that both set …
    pub knob: KnobKind,
    /// … on this workload; None: on all.
    pub workload: Option<WorkloadId>,
}

impl Scope {
    /// Everything on a machine with these CPUs.
    #[must_use]
    pub fn everything(pool: CpuSet) -> Scope {
        Scope { workloads: None, pool, knobs: KnobKind::ALL.to_vec() }
    }

    /// Does the instance own this workload?
    #[must_use]
    pub fn owns(&self, workload: WorkloadId) -> bool {
        self.workloads.as_ref().is_none_or(|owned| owned.contains(&workload))
    }

    /// What this scope and another both claim: the same knob on the same workload. Sharing CPUs is no overlap by
    /// itself: in a stack one instance's pool is what another leaves.
    #[must_use]
    pub fn overlap(&self, other: &Scope) -> Option<Overlap> {
        let knob = *self.knobs.iter().find(|knob| other.knobs.contains(knob))?;
        let workload = match (&self.workloads, &other.workloads) {
            (None, None) => None,
            (None, Some(some)) | (Some(some), None) => Some(*some.first()?),
            (Some(ours), Some(theirs)) => Some(*ours.iter().find(|id| theirs.contains(id))?),
        };
        Some(Overlap { knob, workload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(workloads: Option<&[u32]>, knobs: &[KnobKind]) -> Scope {
        Scope {
            workloads: workloads.map(|ids| ids.iter().map(|&id| WorkloadId(id)).collect()),
            pool: CpuSet::first(4),
            knobs: knobs.to_vec(),
        }
    }

    #[test]
    fn only_the_same_knob_on_the_same_workload_overlaps() {
        let a = scope(Some(&[0, 1]), &[KnobKind::Cpus]);
        assert_eq!(a.overlap(&scope(Some(&[2]), &[KnobKind::Cpus])), None);
        assert_eq!(a.overlap(&scope(Some(&[1]), &[KnobKind::Class])), None);
        let both = a.overlap(&scope(None, &[KnobKind::Class, KnobKind::Cpus])).unwrap();
        assert_eq!(both, Overlap { knob: KnobKind::Cpus, workload: Some(WorkloadId(0)) });
    }
}
