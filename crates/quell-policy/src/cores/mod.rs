//! What the policies that hand out cores share: who is entitled to what, and who holds which core.
//!
//! The words are Caladan's: a *core* is what has a runqueue (a CPU, in Quell's words), a *task* is a workload.

mod occupancy;
mod tasks;

use quell_model::{Heeds, Key};

pub(crate) use occupancy::Cores;
pub(crate) use tasks::{Right, Task, Tasks, Thresholds, queueing_delay};

/// What they act on: guarantees, limits in whole cores, and, where the host can, a grace before a core is taken.
pub(crate) const KEYS: &[Heeds] = &[Heeds::critical(Key::Cpus), Heeds::all(Key::Limit), Heeds::all(Key::Grace)];
