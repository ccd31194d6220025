//! The core limits that the memory bandwidth controller sets.

use quell_model::WorkloadId;
use serde::{Deserialize, Serialize};

use crate::cores::{Cores, Tasks};

/// The core limit of each task, by slot; None: not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Limits(Vec<Option<u32>>);

impl Limits {
    /// The core limit of a task; None: it is not limited.
    pub fn of(&self, task: WorkloadId) -> Option<u32> {
        self.0.get(task.index()).copied().flatten()
    }

    /// Makes room for this number of slots.
    pub fn fit(&mut self, slots: usize) {
        self.0.resize(slots, None);
    }

    /// The limit of a task that came or went.
    pub fn forget(&mut self, task: WorkloadId) {
        if let Some(limit) = self.0.get_mut(task.index()) {
            *limit = None;
        }
    }

    /// The limits of all tasks.
    pub fn forget_all(&mut self) {
        self.0.fill(None);
    }

    /// "Increment the core limit on the most limited task"; a limit of all `cores` is none.
    pub fn increment_most_limited(&mut self, cores: u32) {
        let limited = self.0.iter_mut().filter(|limit| limit.is_some());
        if let Some(most_limited) = limited.min_by_key(|limit| limit.unwrap_or(u32::MAX)) {
            *most_limited = most_limited.map(|limit| limit + 1).filter(|&limit| limit < cores);
        }
    }

    /// "Decrement task T's core limit"; `held`: the cores that it holds.
    pub fn decrement(&mut self, task: WorkloadId, held: u32) {
        let limit = &mut self.0[task.index()];
        *limit = Some(limit.map_or(held, |limit| limit.min(held)).saturating_sub(1));
    }
}

/// "Task T that is BE and has the highest" of this measure, among those that hold cores; None where all have zero.
pub(super) fn worst(tasks: &Tasks, cores: &Cores, measure: impl Fn(WorkloadId) -> f64) -> Option<WorkloadId> {
    let be = tasks.iter().filter(|(id, task)| !task.lc && cores.held(*id) > 0);
    let measured = be.map(|(id, _)| (measure(id), id)).filter(|(measure, _)| *measure > 0.0);
    measured.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, id)| id)
}
