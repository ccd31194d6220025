//! Solo runs: everybody else who may be paused is.
//!
//! The pause ends with the lease, whatever the policy does. If Quell itself is killed during a solo run, the agent's
//! guardian, or `quell restore`, lets go on what it paused.

use quell_model::{Event, Lease, Nanos, Refusal, SoloEnd, Workload, WorkloadId};

use super::LinuxHost;
use crate::knobs::Wanted;

/// The solo run that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solo {
    lease: Lease,
}

/// What is wanted of a workload now: its standing values, as far as a solo run does not change them.
pub(super) fn wanted(solo: &Option<Solo>, id: WorkloadId, spec: &Workload, standing: Wanted) -> Wanted {
    match solo {
        Some(Solo { lease }) if lease.pauses(id, spec) => Wanted { pause: Some(true), ..standing },
        Some(Solo { lease }) if lease.solo == id && lease.lift_isolations => {
            Wanted { cpus: None, partition: None, quota: None, ..standing }
        }
        _ => standing,
    }
}

impl LinuxHost {
    pub(super) fn solo_of(&self) -> Option<WorkloadId> {
        self.solo.map(|solo| solo.lease.solo)
    }

    pub(super) fn begin_solo(&mut self, lease: Lease, now: Nanos) -> Result<(), Refusal> {
        if self.managed(lease.solo).is_none() {
            return Err(Refusal::System(format!("no workload has the number {}", lease.solo.0)));
        }
        let lease = self.leases.begin(lease, now)?;
        self.solo = Some(Solo { lease });
        if let Err(error) = self.set_all() {
            self.solo = None;
            self.leases.end(now);
            return Err(error.into());
        }
        self.pending.push(Event::SoloBegan(lease.solo));
        Ok(())
    }

    pub(super) fn end_solo_if_over(&mut self, now: Nanos) {
        if self.solo.is_some() && self.leases.ends_at().is_some_and(|end| end <= now) {
            self.end_solo(SoloEnd::Elapsed, now);
        }
    }

    /// Ends the solo run, if there is one. Each workload is put back for itself: one that cannot be does not keep the
    /// others paused.
    pub(super) fn end_solo(&mut self, why: SoloEnd, now: Nanos) {
        let Some(solo) = self.solo.take() else { return };
        self.leases.end(now);
        let all: Vec<WorkloadId> = self.workloads().map(|(id, _)| id).collect();
        self.reapply(&all, &[]);
        self.pending.push(Event::SoloEnded(solo.lease.solo, why));
    }

    fn set_all(&mut self) -> Result<(), crate::LinuxError> {
        let all: Vec<WorkloadId> = self.workloads().map(|(id, _)| id).collect();
        let writes = self.compile(&all, None)?;
        self.make(&writes)
    }
}
