//! Whether the workloads are those that a policy has met: then it need not look at each of them once more.

use std::sync::Arc;

use quell_model::{Allowance, CpuSet, View, Workload, WorkloadId};

/// What a policy knows of the workloads, as it was when it met them last. No part of its state: without it, it meets them again.
#[derive(Clone, Debug, Default)]
pub struct Met(Option<Seen>);

#[derive(Clone, Debug)]
struct Seen {
    specs: Vec<Option<Arc<Workload>>>,
    allowances: Arc<Vec<Allowance>>,
    owned: Option<Vec<WorkloadId>>,
    pool: CpuSet,
}

impl Met {
    /// Are specifications, allowances, scope and pool those that were met?
    #[must_use]
    pub fn is_same(&self, view: &View) -> bool {
        let Some(seen) = &self.0 else { return false };
        let is_same = |pair: (&Option<Arc<Workload>>, &Option<Arc<Workload>>)| match pair {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        seen.pool == view.pool()
            && seen.owned == view.scope.workloads
            && Arc::ptr_eq(&seen.allowances, &view.allowances)
            && seen.specs.len() == view.workloads.spec.len()
            && seen.specs.iter().zip(&view.workloads.spec).all(is_same)
    }

    /// The policy has met them.
    pub fn meet(&mut self, view: &View) {
        self.0 = Some(Seen {
            specs: view.workloads.spec.clone(),
            allowances: Arc::clone(&view.allowances),
            owned: view.scope.workloads.clone(),
            pool: view.pool(),
        });
    }
}

/// It says nothing of a policy's state.
impl PartialEq for Met {
    fn eq(&self, _: &Met) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use quell_model::{Class, CpuCount, Topology};

    use super::*;

    #[test]
    fn what_came_went_or_is_allowed_otherwise_is_met_again() {
        let mut view = View::new(Arc::new(Topology::synthetic(1, 1, 4, 1)));
        let spec = |name: &str| Some(Arc::new(Workload::new(name, Class::BestEffort, CpuCount::ZERO)));
        view.workloads.spec = vec![spec("a"), None];
        let mut met = Met::default();
        assert!(!met.is_same(&view));
        met.meet(&view);
        assert!(met.is_same(&view) && met.is_same(&view.clone()));
        let changes: [fn(&mut View); 5] = [
            |view| view.workloads.spec[0] = None,
            |view| view.workloads.spec.push(None),
            |view| view.workloads.spec[0] = view.workloads.spec[0].as_deref().cloned().map(Arc::new),
            |view| view.allowances = Arc::default(),
            |view| view.scope.workloads = Some(Vec::new()),
        ];
        for change in changes {
            let mut other = view.clone();
            change(&mut other);
            assert!(!met.is_same(&other));
        }
        view.cpus.online = CpuSet::first(2);
        assert!(!met.is_same(&view), "the pool");
    }
}
