//! What an agent asks of a host beside the contract: workloads that come, change and go.

use std::fmt::Display;

use quell_model::{Host, Workload, WorkloadId};

use super::LinuxHost;
use crate::LinuxError;
use crate::write::RestoreReport;

/// A host that manages the processes of this machine: the stock host, or one that wraps it and has a scheduler of its own.
pub trait Manager: Host<Error: Display> {
    /// The stock host: this one, or the one within.
    fn linux(&mut self) -> &mut LinuxHost;

    /// Begins to manage a workload. But for its limit nothing is set on it until a policy asks.
    ///
    /// # Errors
    /// If the workload makes no sense here; then nothing changed.
    fn attach(&mut self, workload: Workload) -> Result<WorkloadId, Self::Error>;

    /// Changes a workload's description. Its standing values stay.
    ///
    /// # Errors
    /// As [`Manager::attach`].
    fn update(&mut self, id: WorkloadId, workload: Workload) -> Result<(), Self::Error>;

    /// Puts back what was set on a workload and stops to manage it.
    ///
    /// # Errors
    /// If there is no such workload.
    fn detach(&mut self, id: WorkloadId) -> Result<RestoreReport, Self::Error>;

    /// Does the error say no more than that nothing matches the workload's selectors now?
    fn is_absence(error: &Self::Error) -> bool;
}

impl Manager for LinuxHost {
    fn linux(&mut self) -> &mut LinuxHost {
        self
    }

    fn attach(&mut self, workload: Workload) -> Result<WorkloadId, LinuxError> {
        LinuxHost::attach(self, workload)
    }

    fn update(&mut self, id: WorkloadId, workload: Workload) -> Result<(), LinuxError> {
        LinuxHost::update(self, id, workload)
    }

    fn detach(&mut self, id: WorkloadId) -> Result<RestoreReport, LinuxError> {
        LinuxHost::detach(self, id)
    }

    fn is_absence(error: &LinuxError) -> bool {
        matches!(error, LinuxError::NoMatch { .. })
    }
}
