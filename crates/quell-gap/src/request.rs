//! The workloads to measure.

use quell_model::{CpuCount, Selector};
use serde::Serialize;

/// A workload to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Its name.
    pub name: String,
    /// The CPUs that it requested; none for a neighbour that is only listed.
    pub cpus: CpuCount,
    /// Selectors of its threads.
    pub selectors: Vec<Selector>,
}
