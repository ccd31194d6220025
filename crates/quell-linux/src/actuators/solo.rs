//! Solo runs: one workload alone, the others paused, for a bounded time.

use quell_model::{Lease, LeaseBook, LeaseLimits, Nanos, Refusal, Workload, WorkloadId};

use super::Wanted;

/// The present solo run, and the time of those before.
#[derive(Debug)]
pub(crate) struct Solo(LeaseBook);

impl Solo {
    pub fn new(limits: LeaseLimits) -> Solo {
        Solo(LeaseBook::new(limits))
    }

    fn lease(&self) -> Option<Lease> {
        self.0.running().map(|(lease, _)| lease)
    }

    /// The workload that runs alone.
    pub fn workload(&self) -> Option<WorkloadId> {
        self.lease().map(|lease| lease.solo)
    }

    /// The end of its time.
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

    /// Ends it; returns which workload ran alone.
    pub fn end(&mut self, now: Nanos) -> Option<WorkloadId> {
        Some(self.0.end(now)?.solo)
    }

    /// A workload's wanted values now: its standing ones, as far as a solo run does not change them.
    pub fn wanted(&self, id: WorkloadId, spec: &Workload, standing: Wanted) -> Wanted {
        match self.lease() {
            Some(lease) if lease.pauses(id, spec) => Wanted { pause: Some(true), ..standing },
            Some(lease) if lease.solo == id && lease.lift_isolations => {
                Wanted { cpus: None, partition: None, quota: None, ..standing }
            }
            _ => standing,
        }
    }
}
