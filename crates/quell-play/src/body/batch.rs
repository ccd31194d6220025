//! Work without end.

use quell_model::Nanos;
use quell_sim::workload::BatchSpec;
use quell_thread::clock;

use super::Body;
use crate::threads::sleep_until;

/// More than any course is long.
const PLENTY: Nanos = Nanos::from_secs(1_000_000);

impl Body<'_> {
    /// Works until the end, or in phases. Without a body of work a thread sleeps.
    pub fn toil(&self, batch: Option<&BatchSpec>) {
        let Some(batch) = batch else { return sleep_until(self.course.end) };
        let Some(phases) = batch.phases else {
            let _ = self.pace.work_until(PLENTY, self.course.end);
            return;
        };
        let mut at = self.course.begin;
        while clock::now() < self.course.end {
            let _ = self.pace.work_until(PLENTY, (at + phases.busy).min(self.course.end));
            at = at + phases.busy + phases.quiet;
            sleep_until(at.min(self.course.end));
        }
    }
}
