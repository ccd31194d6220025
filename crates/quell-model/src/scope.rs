//! The scope of one policy instance: workloads, CPUs, knobs and rules. Two instances that overlap are refused.

use serde::{Deserialize, Serialize};

use crate::{CpuSet, KnobKind, RuleKind, WorkloadId};

/// The part of the machine that one policy instance may decide about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// The workloads; None: all.
    pub workloads: Option<Vec<WorkloadId>>,
    /// The CPUs.
    pub pool: CpuSet,
    /// The knobs that it sets on them.
    pub knobs: Vec<KnobKind>,
    /// The rules that it gives to the host about them.
    #[serde(default)]
    pub rules: Vec<RuleKind>,
}

/// An element of two scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// A knob.
    Knob(KnobKind),
    /// A rule.
    Rule(RuleKind),
}

impl std::fmt::Display for Claimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Claimed::Knob(kind) => write!(f, "the knob '{}'", kind.name()),
            Claimed::Rule(kind) => write!(f, "the rule '{}'", kind.name()),
        }
    }
}

/// An overlap of two scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The knob or rule …
    pub what: Claimed,
    /// … on this workload; None: on all.
    pub workload: Option<WorkloadId>,
}

impl Scope {
    /// Everything on a machine with these CPUs.
    #[must_use]
    pub fn everything(pool: CpuSet) -> Scope {
        Scope { workloads: None, pool, knobs: KnobKind::ALL.to_vec(), rules: RuleKind::ALL.to_vec() }
    }

    /// Does the instance own this workload?
    #[must_use]
    pub fn owns(&self, workload: WorkloadId) -> bool {
        self.workloads.as_ref().is_none_or(|owned| owned.contains(&workload))
    }

    /// The overlap of two scopes: the same knob or rule on the same workload. Sharing CPUs is no overlap by itself: in
    /// a stack one instance's pool is the rest of another's.
    #[must_use]
    pub fn overlap(&self, other: &Scope) -> Option<Overlap> {
        let knob = self
            .knobs
            .iter()
            .filter(|knob| **knob != KnobKind::MaxFrequencyKhz)
            .find(|knob| other.knobs.contains(knob))
            .copied()
            .map(Claimed::Knob);
        let rule = || self.rules.iter().find(|rule| other.rules.contains(rule)).copied().map(Claimed::Rule);
        // Frequencies belong to CPUs: on common ones they overlap, whichever the workloads are.
        let of_cpus = KnobKind::MaxFrequencyKhz;
        let both = self.knobs.contains(&of_cpus) && other.knobs.contains(&of_cpus);
        if both && !self.pool.is_disjoint(&other.pool) {
            return Some(Overlap { what: Claimed::Knob(of_cpus), workload: None });
        }
        let what = knob.or_else(rule)?;
        let workload = match (&self.workloads, &other.workloads) {
            (None, None) => None,
            (None, Some(some)) | (Some(some), None) => Some(*some.first()?),
            (Some(ours), Some(theirs)) => Some(*ours.iter().find(|id| theirs.contains(id))?),
        };
        Some(Overlap { what, workload })
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
            rules: Vec::new(),
        }
    }

    #[test]
    fn only_the_same_knob_on_the_same_workload_overlaps() {
        let a = scope(Some(&[0, 1]), &[KnobKind::Cpus]);
        assert_eq!(a.overlap(&scope(Some(&[2]), &[KnobKind::Cpus])), None);
        assert_eq!(a.overlap(&scope(Some(&[1]), &[KnobKind::Class])), None);
        let both = a.overlap(&scope(None, &[KnobKind::Class, KnobKind::Cpus])).unwrap();
        assert_eq!(both, Overlap { what: Claimed::Knob(KnobKind::Cpus), workload: Some(WorkloadId(0)) });
    }

    #[test]
    fn frequencies_overlap_on_common_cpus() {
        let a = scope(Some(&[0]), &[KnobKind::MaxFrequencyKhz]);
        let mut b = scope(Some(&[1]), &[KnobKind::MaxFrequencyKhz]);
        assert_eq!(a.overlap(&b).map(|both| both.workload), Some(None));
        b.pool = "4-7".parse().unwrap();
        assert_eq!(a.overlap(&b), None);
    }

    #[test]
    fn the_same_rule_on_the_same_workload_overlaps() {
        let with = |workloads, rule| Scope { rules: vec![rule], ..scope(Some(workloads), &[]) };
        let a = with(&[0, 1], RuleKind::Server);
        assert_eq!(a.overlap(&with(&[1], RuleKind::Limit)), None);
        assert_eq!(a.overlap(&with(&[2], RuleKind::Server)), None);
        let both = a.overlap(&with(&[1], RuleKind::Server)).unwrap();
        assert_eq!(both, Overlap { what: Claimed::Rule(RuleKind::Server), workload: Some(WorkloadId(1)) });
    }
}
