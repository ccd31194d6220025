//! A policy's view: structure of arrays, filled by the host once a step with the requested signals only.

mod columns;
mod edges;

pub use columns::{CpuColumns, MachineSamples, ThreadColumns, WorkloadColumns};
pub use edges::WakeUpColumns;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::signal::Subject;
use crate::{
    Allowance, Controls, CpuCount, CpuSet, Nanos, Sample, Scope, Signal, SignalSet, Topology, Workload, WorkloadId,
};

/// One step's view. Columns of signals that the policy did not ask for stay empty; reading them gives an absent sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The host's time of this view.
    pub now: Nanos,
    /// The machine's CPUs.
    pub topology: Arc<Topology>,
    /// What there is to turn.
    #[serde(default)]
    pub controls: Arc<Controls>,
    /// What its cgroups allow each workload that they limit; ascending by workload.
    #[serde(default)]
    pub allowances: Arc<Vec<Allowance>>,
    /// The scope of this policy instance.
    pub scope: Scope,
    /// Per workload, by [`WorkloadId`].
    pub workloads: WorkloadColumns,
    /// Per CPU, by [`crate::CpuId`].
    pub cpus: CpuColumns,
    /// Per thread, in no particular order; only if requested.
    pub threads: ThreadColumns,
    /// The whole machine.
    #[serde(default)]
    pub machine: MachineSamples,
}

impl View {
    /// An empty view of a machine on which the policy owns everything.
    #[must_use]
    pub fn new(topology: Arc<Topology>) -> View {
        let online = topology.all();
        View {
            now: Nanos::ZERO,
            scope: Scope::everything(online),
            topology,
            controls: Arc::default(),
            allowances: Arc::default(),
            workloads: WorkloadColumns::default(),
            cpus: CpuColumns { online, ..CpuColumns::default() },
            threads: ThreadColumns::default(),
            machine: MachineSamples::default(),
        }
    }

    /// Becomes equal to the other view and keeps its own columns' memory: allocates nothing once they are large enough.
    pub fn copy_from(&mut self, other: &View) {
        let View { now, topology, controls, allowances, scope, workloads, cpus, threads, machine } = other;
        self.now = *now;
        if !Arc::ptr_eq(&self.topology, topology) {
            self.topology = Arc::clone(topology);
        }
        if !Arc::ptr_eq(&self.controls, controls) {
            self.controls = Arc::clone(controls);
        }
        if !Arc::ptr_eq(&self.allowances, allowances) {
            self.allowances = Arc::clone(allowances);
        }
        self.scope.workloads.clone_from(&scope.workloads);
        self.scope.pool = scope.pool;
        self.scope.knobs.clone_from(&scope.knobs);
        self.workloads.copy_from(workloads);
        self.cpus.copy_from(cpus);
        self.threads.copy_from(threads);
        self.machine = *machine;
    }

    /// Prepares an observation once `workloads.spec` is filled: every column of a wanted workload signal is absent
    /// everywhere, every other column is empty (columns of CPUs stay so where they cannot be measured). Memory is kept.
    pub fn blank(&mut self, wanted: SignalSet) {
        self.workloads.blank(wanted, self.workloads.spec.len());
        self.cpus.blank(wanted, 0);
        self.threads.clear();
        self.machine = MachineSamples::default();
    }

    /// A signal of a workload, of a CPU or of the machine (`index` is 0) as a number in its unit; absent if the signal
    /// has another subject, or was not requested.
    #[must_use]
    pub fn number(&self, signal: Signal, index: usize) -> Sample<f64> {
        match signal.info().of {
            Subject::Workload => self.workloads.number(signal, index),
            Subject::Cpu => self.cpus.number(signal, index),
            Subject::Machine if index == 0 => self.machine.number(signal),
            Subject::Machine | Subject::Thread | Subject::Edge => Sample::default(),
        }
    }

    /// The workloads that the policy owns, in the order of their slots.
    pub fn owned(&self) -> impl Iterator<Item = (WorkloadId, &Workload)> {
        self.workloads.spec.iter().enumerate().filter_map(|(slot, spec)| {
            let id = WorkloadId(slot as u32);
            spec.as_deref().filter(|_| self.scope.owns(id)).map(|spec| (id, spec))
        })
    }

    /// One workload that the policy owns, if it is attached.
    #[must_use]
    pub fn workload(&self, id: WorkloadId) -> Option<&Workload> {
        self.workloads.spec.get(id.index())?.as_deref().filter(|_| self.scope.owns(id))
    }

    /// The CPUs that the policy may use: its pool, as far as it is online.
    #[must_use]
    pub fn pool(&self) -> CpuSet {
        self.scope.pool.intersection(&self.cpus.online)
    }

    /// What its cgroups allow a workload; None: they do not limit it.
    #[must_use]
    pub fn allowance(&self, id: WorkloadId) -> Option<&Allowance> {
        let at = self.allowances.binary_search_by_key(&id, |allowance| allowance.workload).ok()?;
        self.allowances.get(at)
    }

    /// The CPUs of these that a workload may have; none if its cgroups allow it none of them.
    #[must_use]
    pub fn within(&self, id: WorkloadId, cpus: &CpuSet) -> CpuSet {
        match self.allowance(id).and_then(|allowance| allowance.cpus) {
            Some(allowed) => cpus.intersection(&allowed),
            None => *cpus,
        }
    }

    /// The same; where its cgroups allow a workload none of them, those of the pool that they allow, and else all of them.
    #[must_use]
    pub fn within_or_any(&self, id: WorkloadId, cpus: &CpuSet) -> CpuSet {
        let of = [self.within(id, cpus), self.within(id, &self.pool())];
        of.into_iter().find(|cpus| !cpus.is_empty()).unwrap_or(*cpus)
    }

    /// CPUs that a workload asks for, as far as its cgroups can give it that much.
    #[must_use]
    pub fn usable(&self, id: WorkloadId, asked: CpuCount) -> CpuCount {
        let most = self.allowance(id).and_then(Allowance::most);
        most.map_or(asked, |most| asked.min(most))
    }
}

/// The sample of a workload or CPU in a column; absent if the column was not requested.
#[must_use]
pub fn at<T: Copy + Default>(column: &[Sample<T>], index: usize) -> Sample<T> {
    column.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, CpuCount, ThreadId};

    #[test]
    fn a_copy_is_equal_and_keeps_its_memory() {
        let mut view = View::new(Topology::synthetic(1, 1, 4, 2).into());
        view.now = Nanos(7);
        view.workloads.spec = vec![Some(Workload::new("a", Class::BestEffort, CpuCount::ZERO).into()), None];
        view.workloads.run_time = vec![Sample::exact(Nanos(3), Nanos(7)); 2];
        view.cpus.holder = vec![Some(WorkloadId(0)); 8];
        view.threads.id = vec![ThreadId { tid: 1, start: 2 }];
        view.threads.preemptions = vec![Some(3)];
        view.threads.wake_ups.push(None, ThreadId { tid: 1, start: 2 }, 4);
        view.scope.workloads = Some(vec![WorkloadId(0)]);
        let mut copy = View::new(Topology::synthetic(1, 1, 1, 1).into());
        copy.copy_from(&view);
        assert_eq!(copy, view);
        let memory = copy.workloads.run_time.as_ptr();
        view.workloads.run_time[1].value = Nanos(9);
        view.threads.clear();
        copy.copy_from(&view);
        assert_eq!(copy, view);
        assert_eq!(copy.workloads.run_time.as_ptr(), memory);
    }
}
