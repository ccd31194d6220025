//! Invariants of a policy after a calm period.
//!
//! Each policy defines its own in its folder; property tests check them on a host after random sequences of events.

use quell_model::{CpuSet, Plan, SchedClass, View, Workload, WorkloadId};

/// A host's state of one workload.
#[derive(Clone, Debug, Default)]
pub struct Has {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// The CPUs that it was granted and has.
    pub held: CpuSet,
    /// The scheduling class of each of its threads.
    pub classes: Vec<SchedClass>,
    /// The cache ways that it may fill, a bit each.
    pub ways: u32,
}

/// A host that was left alone for longer than any policy waits: all CPUs are there, everything is measured, nothing fails.
#[derive(Clone, Debug)]
pub struct Calm<'a> {
    /// The policy's last view.
    pub view: &'a View,
    /// Its last plan.
    pub plan: &'a Plan,
    /// All CPUs.
    pub cpus: CpuSet,
    /// CPUs that must idle.
    pub banned: CpuSet,
    /// Number of knob settings so far.
    pub knobs_set: u64,
    /// By slot.
    pub has: Vec<Has>,
}

impl<'a> Calm<'a> {
    /// The host's state of a workload.
    #[must_use]
    pub fn of(&self, id: WorkloadId) -> &Has {
        &self.has[id.index()]
    }

    /// The best-effort workloads.
    pub fn best_effort(&self) -> impl Iterator<Item = (WorkloadId, &'a Workload)> + use<'a> {
        self.view.owned().filter(|(_, spec)| !spec.is_lc())
    }

    /// The latency-critical workloads.
    pub fn latency_critical(&self) -> impl Iterator<Item = (WorkloadId, &'a Workload)> + use<'a> {
        self.view.owned().filter(|(_, spec)| spec.is_lc())
    }

    /// No workload holds more CPUs than its limit, rounded up.
    ///
    /// # Panics
    /// If one does.
    pub fn check_limits(&self) {
        for (id, spec) in self.view.owned() {
            let (held, most) = (self.of(id).held.len(), most(spec));
            assert!(held <= most, "{} holds {held} of {most} CPUs", spec.name);
        }
    }
}

/// The most CPUs that a workload may hold.
pub(crate) fn most(spec: &Workload) -> usize {
    spec.limit.map_or(u32::MAX, |limit| limit.ceil()) as usize
}

/// The invariants of a policy.
pub trait Invariants {
    /// Parameters that switch on parts that are off by default, as JSON: the invariants are checked with them, too.
    const VARIANTS: &'static [&'static str] = &[];

    /// Checks the policy's invariants on a host.
    ///
    /// # Panics
    /// Where one does not hold.
    fn check(&self, calm: &Calm<'_>);
}
