//! Begins and ends solo runs.

use quell_model::{Event, Lease, LeaseRequest, Nanos, Refusal, SoloEnd, Verdict, WorkloadId};

use super::LinuxHost;

impl LinuxHost {
    pub(super) fn lease(&mut self, request: &LeaseRequest, now: Nanos) -> Verdict {
        match request {
            LeaseRequest::Begin(lease) => match self.begin_solo(*lease, now) {
                Ok(()) => Verdict::Applied(now),
                Err(refusal) => Verdict::Refused(refusal),
            },
            LeaseRequest::End(id) if self.standing.solo.workload() == Some(*id) => {
                self.end_solo(SoloEnd::Released, now);
                Verdict::Applied(now)
            }
            LeaseRequest::End(_) => Verdict::Vanished,
        }
    }

    fn begin_solo(&mut self, lease: Lease, now: Nanos) -> Result<(), Refusal> {
        if self.members.get(lease.solo).is_none() {
            return Err(Refusal::System(format!("no workload has the number {}", lease.solo.0)));
        }
        self.standing.solo.begin(lease, now)?;
        let all = self.all();
        if let Err(error) = self.compile(&all, None).and_then(|writes| self.make(&writes)) {
            self.standing.solo.end(now);
            return Err(error.into());
        }
        self.pending.push(Event::SoloBegan(lease.solo));
        Ok(())
    }

    pub(super) fn end_solo_if_over(&mut self, now: Nanos) {
        if self.standing.solo.ends_at() <= now {
            self.end_solo(SoloEnd::Elapsed, now);
        }
    }

    /// Ends the solo run, if there is one. Each workload is put back for itself: one that cannot be does not keep the
    /// others paused.
    pub(super) fn end_solo(&mut self, why: SoloEnd, now: Nanos) {
        let Some(who) = self.standing.solo.end(now) else { return };
        self.reapply(&self.all(), &[]);
        self.pending.push(Event::SoloEnded(who, why));
    }

    fn all(&self) -> Vec<WorkloadId> {
        self.workloads().map(|(id, _)| id).collect()
    }
}
