//! What the loop and the thread of attribution hand each other: plain data.

use std::sync::Arc;

use quell_model::view::at;
use quell_model::{Nanos, Quality, View, Workload, WorkloadId};

/// What the loop saw.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub at: Nanos,
    /// By slot: the workload, and the time that its threads waited since it attached.
    pub workloads: Vec<Option<(Arc<Workload>, Nanos)>>,
    /// All threads: number, process, slot; None: they were not asked for.
    pub threads: Option<Vec<(i32, i32, u16)>>,
}

impl Look {
    /// Becomes what this view has.
    pub fn take(&mut self, view: &View, threads: Option<impl Iterator<Item = (i32, i32, WorkloadId)>>) {
        self.at = view.now;
        self.workloads.clear();
        let columns = &view.workloads;
        let of = |(slot, spec): (usize, &Option<Arc<Workload>>)| {
            let waited = at(&columns.run_delay, slot);
            let spec = spec.as_ref().filter(|_| waited.quality > Quality::Absent)?;
            Some((Arc::clone(spec), waited.value))
        };
        self.workloads.extend(columns.spec.iter().enumerate().map(of));
        let numbered = |(tid, pid, id): (i32, i32, WorkloadId)| Some((tid, pid, u16::try_from(id.0).ok()?));
        self.threads = threads.map(|threads| threads.filter_map(numbered).collect());
    }
}

/// What attribution found out, for the loop.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    pub at: Nanos,
    /// By slot: the workload, and the time that others took of it.
    pub waited: Vec<(Option<Arc<Workload>>, Nanos)>,
    /// CPU time that it used.
    pub cost: Nanos,
}
