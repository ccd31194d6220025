//! The common part of the policies that grant cores: rights of tasks, and the task on each core.
//!
//! The words are Caladan's: a *core* has a runqueue (a CPU, in Quell's words), a *task* is a workload.

mod occupancy;
mod tasks;

use quell_model::{Key, Uses};

pub(crate) use occupancy::Cores;
pub(crate) use tasks::{Right, Task, Tasks, Thresholds, queueing_delay};

/// The keys that they act on: guarantees, limits in whole cores, and, where the host supports it, a grace before a core
/// is taken.
pub(crate) const KEYS: &[Uses] = &[Uses::critical(Key::Cpus), Uses::all(Key::Limit), Uses::all(Key::Grace)];
