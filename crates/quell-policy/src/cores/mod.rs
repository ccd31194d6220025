//! What the policies that hand out cores share: who is entitled to what, and who holds which core.
//!
//! The words are Caladan's: a *core* is what has a runqueue (a CPU, in Quell's words), a *task* is a workload.

mod occupancy;
mod tasks;

pub(crate) use occupancy::Cores;
pub(crate) use tasks::{Right, Task, Tasks, Thresholds, queueing_delay};
