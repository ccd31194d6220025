//! A host that observes and sets nothing for a while.

use quell_model::WorkloadId;

use super::LinuxHost;
use crate::LinuxError;
use crate::write::RestoreReport;

impl LinuxHost {
    /// Puts everything back, as [`LinuxHost::restore`], and sets nothing from now on, whatever is asked for; workloads may come
    /// and go. A scheduler that is loaded stays so, and has no workloads.
    ///
    /// # Errors
    /// If the scheduler does not let a workload go; everything else is put back.
    pub fn suspend(&mut self) -> Result<RestoreReport, LinuxError> {
        if self.suspended {
            return Ok(RestoreReport::default());
        }
        let report = self.restore();
        self.suspended = true;
        let ids: Vec<WorkloadId> = self.members.workloads().map(|(id, _)| id).collect();
        let mut result = Ok(report);
        for id in ids {
            if let Err(error) = self.scheduler.detach(id) {
                result = Err(error);
            }
        }
        result
    }

    /// Sets again what is asked for from now on. What was set before stays put back: attach the workloads again for that.
    ///
    /// # Errors
    /// If the scheduler refuses a workload; nothing is set then as before.
    pub fn resume(&mut self) -> Result<(), LinuxError> {
        if !self.suspended {
            return Ok(());
        }
        let mut attached = Vec::new();
        for (id, workload) in self.members.workloads() {
            if let Err(error) = self.scheduler.attach(id, workload) {
                // It was not there a moment ago, so that it can go.
                attached.into_iter().for_each(|id| _ = self.scheduler.detach(id));
                return Err(error);
            }
            attached.push(id);
        }
        self.suspended = false;
        Ok(())
    }

    /// Is nothing set now?
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.suspended
    }
}
