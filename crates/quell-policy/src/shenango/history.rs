//! The tasks that each core had, and the core that each task left last (`core_history`, `idle_threads`).

use quell_model::{CpuId, WorkloadId};
use serde::{Deserialize, Serialize};

use crate::cores::Cores;

/// What was where before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct History {
    /// By core: the task on it, or that had it last, and the one before.
    tasks: Vec<[Option<WorkloadId>; 2]>,
    /// By core: the task on it.
    now: Vec<Option<WorkloadId>>,
    /// By task.
    left: Vec<Option<CpuId>>,
}

impl History {
    /// Takes in which tasks the cores have now.
    pub fn look(&mut self, cores: &Cores, columns: usize, tasks: usize) {
        self.tasks.resize(columns, [None; 2]);
        self.now.resize(columns, None);
        self.left.resize(tasks, None);
        for at in 0..columns {
            let core = CpuId(at as u32);
            let task = cores.task_on(core);
            let was = std::mem::replace(&mut self.now[at], task);
            if was == task {
                continue;
            }
            if let Some(left) = was.and_then(|was| self.left.get_mut(was.index())) {
                *left = Some(core);
            }
            if task.is_some() && self.tasks[at][0] != task {
                self.tasks[at] = [task, self.tasks[at][0]];
            }
        }
    }

    /// The task that has or had the core last, and the one before it.
    pub fn of(&self, core: CpuId) -> [Option<WorkloadId>; 2] {
        self.tasks.get(core.index()).copied().unwrap_or_default()
    }

    /// The core that the task left last.
    pub fn left(&self, task: WorkloadId) -> Option<CpuId> {
        self.left.get(task.index()).copied().flatten()
    }
}
