//! Solo runs: one workload alone, the others paused, for a bounded time.

use quell_model::{CpuSet, Lease, LeaseBook, LeaseLimits, Nanos, Refusal, Workload, WorkloadId};

use super::Wanted;

/// The present solo run, and the time of those before.
#[derive(Debug)]
pub(crate) struct Solo(LeaseBook);

impl Solo {
    pub fn new(limits: LeaseLimits) -> Solo {
        Solo(LeaseBook::new(limits))
    }

    /// The leases.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.0.leases()
    }

    /// Does this workload run alone?
    pub fn is_of(&self, id: WorkloadId) -> bool {
        self.0.of(id).is_some()
    }

    /// The workloads that run alone.
    pub fn workloads(&self) -> Vec<WorkloadId> {
        self.leases().map(|lease| lease.solo).collect()
    }

    /// The end of the first one's time.
    pub fn ends_at(&self) -> Nanos {
        self.0.ends_at().unwrap_or(Nanos::MAX)
    }

    /// Begins one, as long as the limits allow.
    ///
    /// # Errors
    /// If the limits do not allow it now.
    pub fn begin(&mut self, lease: Lease, now: Nanos) -> Result<(), Refusal> {
        self.0.begin(lease, now).map(|_| ())
    }

    /// Ends a workload's; false: it has none.
    pub fn end(&mut self, id: WorkloadId, now: Nanos) -> bool {
        self.0.end(id, now).is_some()
    }

    /// Ends one that is over; returns the workload.
    pub fn expire(&mut self, now: Nanos) -> Option<WorkloadId> {
        self.0.expire(now).map(|lease| lease.solo)
    }

    /// A workload's wanted values now: its standing ones, as far as solo runs do not change them.
    pub fn wanted(&self, id: WorkloadId, spec: &Workload, standing: Wanted, online: &CpuSet) -> Wanted {
        let cpus = standing.cpus.unwrap_or(*online);
        if self.leases().any(|lease| lease.pauses(id, spec, &cpus)) {
            return Wanted { pause: Some(true), ..standing };
        }
        match self.0.of(id) {
            Some(lease) if lease.lift_isolations => {
                Wanted { cpus: lease.on, partition: None, quota: None, ways: None, throttle: None, ..standing }
            }
            _ => standing,
        }
    }
}
