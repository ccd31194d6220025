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
            LeaseRequest::End(id) if self.standing.solo.is_of(*id) => {
                self.end_solo(*id, SoloEnd::Released, now);
                Verdict::Applied(now)
            }
            LeaseRequest::End(_) => Verdict::Vanished,
            LeaseRequest::Pass { from, to } => self.pass_solo(*from, *to, now),
        }
    }

    fn begin_solo(&mut self, lease: Lease, now: Nanos) -> Result<(), Refusal> {
        if self.members.get(lease.solo).is_none() {
            return Err(Refusal::System(format!("no workload has the number {}", lease.solo.0)));
        }
        let (lease, spared) = self.heed_watchdogs(lease);
        self.standing.solo.begin(lease, &spared, now)?;
        let all = self.all();
        if let Err(error) = self.compile(&all, None, true).and_then(|writes| self.make(&writes)) {
            self.standing.solo.end(lease.solo, now);
            return Err(error.into());
        }
        self.pending.push(Event::SoloBegan(lease.solo));
        self.pending.extend(spared.into_iter().map(Event::Spared));
        Ok(())
    }

    /// Another workload runs alone for the rest of a solo run. If it cannot be made true, the solo run ends.
    fn pass_solo(&mut self, from: WorkloadId, to: WorkloadId, now: Nanos) -> Verdict {
        if self.members.get(to).is_none() {
            return Verdict::Vanished;
        }
        let rest = match self.standing.solo.pass(from, to, now) {
            Ok(Some(rest)) => rest,
            Ok(None) => return Verdict::Vanished,
            Err(refusal) => return Verdict::Refused(refusal),
        };
        let all = self.all();
        // Those that are paused already may be until the end.
        let new = self.standing.would_pause(&rest, from, &self.members) && !self.standing.solo.spares(to, from);
        let is_spared = new && self.members.longest_pause(from).is_some_and(|longest| longest < rest.at_most);
        if is_spared {
            self.standing.solo.spare(to, from);
        }
        if let Err(error) = self.compile(&all, None, true).and_then(|writes| self.make(&writes)) {
            self.standing.solo.end(to, now);
            self.solo_ended(from, SoloEnd::Released);
            return Verdict::Refused(error.into());
        }
        self.pending.extend([Event::SoloEnded(from, SoloEnd::Passed), Event::SoloBegan(to)]);
        self.pending.extend(is_spared.then_some(Event::Spared(from)));
        Verdict::Applied(now)
    }

    /// Shortens a solo run to what the watchdogs of the units that it pauses allow, down to half of what was asked for; with
    /// those that allow less: they run on.
    fn heed_watchdogs(&mut self, lease: Lease) -> (Lease, Vec<WorkloadId>) {
        let at_most = lease.at_most.min(self.members.options.leases.longest);
        let paused: Vec<WorkloadId> = self
            .workloads()
            .map(|(id, _)| id)
            .filter(|&id| self.standing.would_pause(&lease, id, &self.members))
            .collect();
        let allowed = paused.into_iter().filter_map(|id| Some((id, self.members.longest_pause(id)?)));
        let (enough, few): (Vec<_>, Vec<_>) =
            allowed.collect::<Vec<_>>().into_iter().partition(|(_, span)| *span >= Nanos(at_most.0 / 2));
        let shortest = enough.into_iter().map(|(_, span)| span).min().unwrap_or(Nanos::MAX);
        (Lease { at_most: at_most.min(shortest), ..lease }, few.into_iter().map(|(id, _)| id).collect())
    }

    pub(super) fn end_solo_if_over(&mut self, now: Nanos) {
        while let Some(id) = self.standing.solo.expire(now) {
            self.solo_ended(id, SoloEnd::Elapsed);
        }
    }

    /// Ends a workload's solo run, if there is one.
    pub(super) fn end_solo(&mut self, id: WorkloadId, why: SoloEnd, now: Nanos) {
        if self.standing.solo.end(id, now) {
            self.solo_ended(id, why);
        }
    }

    /// Each workload is put back for itself: one that cannot be does not keep the others paused.
    fn solo_ended(&mut self, id: WorkloadId, why: SoloEnd) {
        self.settle_frequencies();
        self.reapply(&self.all(), &[]);
        self.pending.push(Event::SoloEnded(id, why));
    }

    /// Ends all solo runs.
    pub(super) fn end_solos(&mut self, why: SoloEnd, now: Nanos) {
        for id in self.standing.solo.workloads() {
            self.end_solo(id, why, now);
        }
    }

    fn all(&self) -> Vec<WorkloadId> {
        self.workloads().map(|(id, _)| id).collect()
    }
}
