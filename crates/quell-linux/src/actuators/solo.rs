//! Solo runs: one workload alone, the others paused, for a bounded time.

use quell_model::{CpuSet, Lease, LeaseBook, LeaseLimits, Nanos, Refusal, Workload, WorkloadId};

use super::Wanted;

/// The present solo run, and the time of those before.
#[derive(Debug)]
pub(crate) struct Solo {
    book: LeaseBook,
    /// Workloads that run on beside the solo run of the first, although it would pause them.
    spared: Vec<(WorkloadId, WorkloadId)>,
}

impl Solo {
    pub fn new(limits: LeaseLimits) -> Solo {
        Solo { book: LeaseBook::new(limits), spared: Vec::new() }
    }

    /// The leases.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.book.leases()
    }

    /// Does this workload run alone?
    pub fn is_of(&self, id: WorkloadId) -> bool {
        self.book.of(id).is_some()
    }

    /// The workloads that run alone.
    pub fn workloads(&self) -> Vec<WorkloadId> {
        self.leases().map(|lease| lease.solo).collect()
    }

    /// The end of the first one's time.
    pub fn ends_at(&self) -> Nanos {
        self.book.ends_at().unwrap_or(Nanos::MAX)
    }

    /// Begins one, as long as the limits allow. Those that are spared run on beside it.
    ///
    /// # Errors
    /// If the limits do not allow it now.
    pub fn begin(&mut self, lease: Lease, spared: &[WorkloadId], now: Nanos) -> Result<(), Refusal> {
        self.book.begin(lease, now)?;
        self.spared.extend(spared.iter().map(|other| (lease.solo, *other)));
        Ok(())
    }

    /// Passes a workload's on; the rest of it. Those that are spared run on beside it, too. None: it has none.
    ///
    /// # Errors
    /// If it cannot be passed on to this one.
    pub fn pass(&mut self, from: WorkloadId, to: WorkloadId, now: Nanos) -> Result<Option<Lease>, Refusal> {
        let rest = self.book.pass(from, to, now)?;
        if rest.is_some() {
            self.spared.retain(|(solo, other)| *solo != from || *other != to);
            self.spared.iter_mut().filter(|(solo, _)| *solo == from).for_each(|(solo, _)| *solo = to);
        }
        Ok(rest)
    }

    /// This one runs on beside a workload's solo run.
    pub fn spare(&mut self, solo: WorkloadId, other: WorkloadId) {
        self.spared.push((solo, other));
    }

    /// Is this one known to run on beside a workload's solo run?
    pub fn spares(&self, solo: WorkloadId, other: WorkloadId) -> bool {
        self.spared.contains(&(solo, other))
    }

    /// Ends a workload's; false: it has none.
    pub fn end(&mut self, id: WorkloadId, now: Nanos) -> bool {
        let had_one = self.book.end(id, now).is_some();
        self.spared.retain(|(solo, _)| *solo != id || !had_one);
        had_one
    }

    /// Ends one that is over; returns the workload.
    pub fn expire(&mut self, now: Nanos) -> Option<WorkloadId> {
        let over = self.book.expire(now)?.solo;
        self.spared.retain(|(solo, _)| *solo != over);
        Some(over)
    }

    /// A workload's wanted values now: its standing ones, as far as solo runs do not change them.
    pub fn wanted(&self, id: WorkloadId, spec: &Workload, standing: Wanted, online: &CpuSet) -> Wanted {
        let cpus = standing.cpus.unwrap_or(*online);
        let pauses = |lease: &Lease| lease.pauses(id, spec, &cpus) && !self.spares(lease.solo, id);
        if self.leases().any(pauses) {
            return Wanted { pause: Some(true), ..standing };
        }
        match self.book.of(id) {
            Some(lease) if lease.lift_isolations => {
                Wanted { cpus: lease.on, partition: None, quota: None, ways: None, throttle: None, ..standing }
            }
            _ => standing,
        }
    }
}
