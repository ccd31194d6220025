//! Holders of CPUs, and the CPUs on which a workload may run, on hosts that lend CPUs by affinity.

use crate::{CpuId, CpuSet, WorkloadId};

/// The holder of each CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    holder: Vec<Option<WorkloadId>>,
}

impl Holders {
    /// This many CPUs, each held by no workload.
    #[must_use]
    pub fn of(cpus: usize) -> Holders {
        Holders { holder: vec![None; cpus] }
    }

    /// There are at least this many CPUs now; those that came are held by no workload.
    pub fn grow(&mut self, cpus: usize) {
        if self.holder.len() < cpus {
            self.holder.resize(cpus, None);
        }
    }

    /// The holders by CPU.
    #[must_use]
    pub fn all(&self) -> &[Option<WorkloadId>] {
        &self.holder
    }

    /// Gives a CPU to another holder; returns the former one. A CPU beyond the machine's has no holder.
    pub fn hand(&mut self, cpu: CpuId, to: Option<WorkloadId>) -> Option<WorkloadId> {
        self.holder.get_mut(cpu.index()).and_then(|holder| std::mem::replace(holder, to))
    }

    /// Takes all its CPUs from a workload.
    pub fn forget(&mut self, id: WorkloadId) {
        self.holder.iter_mut().filter(|holder| **holder == Some(id)).for_each(|holder| *holder = None);
    }

    /// The CPUs that the workload holds.
    #[must_use]
    pub fn held_by(&self, id: WorkloadId) -> CpuSet {
        self.those(|holder| holder == Some(id))
    }

    fn those(&self, wanted: impl Fn(Option<WorkloadId>) -> bool) -> CpuSet {
        let cpus = (0..self.holder.len() as u32).map(CpuId);
        cpus.filter(|cpu| wanted(self.holder[cpu.index()])).collect()
    }

    /// A workload that holds more CPUs than it has runnable threads yields the rest, the highest first. `runnable`
    /// gives for each slot the number of threads that run or wait.
    pub fn yield_unused(&mut self, runnable: impl Iterator<Item = u32>, mut yielded: impl FnMut(CpuId, WorkloadId)) {
        for (slot, runnable) in runnable.enumerate() {
            let id = WorkloadId(slot as u32);
            let held = self.held_by(id);
            let keeps = held.iter().take(runnable as usize).collect();
            for cpu in held.difference(&keeps).iter() {
                self.hand(cpu, None);
                yielded(cpu, id);
            }
        }
    }

    /// The CPUs on which a best-effort workload may run whose threads are bound to `bound` at present: those that it
    /// holds, else one CPU, since a thread must be somewhere. That one is the first of `bound` without a holder, else
    /// the first CPU without a holder, else the first of `bound`.
    #[must_use]
    pub fn room_for(&self, id: WorkloadId, bound: &CpuSet, pool: &CpuSet) -> CpuSet {
        let held = self.held_by(id).intersection(pool);
        if !held.is_empty() {
            return held;
        }
        let free = self.those(|holder| holder.is_none()).intersection(pool);
        let stays = bound.intersection(pool);
        let first = [free.intersection(&stays), free, stays, *pool].into_iter().find_map(|cpus| cpus.iter().next());
        first.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: WorkloadId = WorkloadId(0);
    const BATCH: WorkloadId = WorkloadId(1);

    fn cpus(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn holders(of: [Option<WorkloadId>; 4]) -> Holders {
        Holders { holder: of.to_vec() }
    }

    #[test]
    fn who_has_fewer_threads_than_cpus_yields_the_rest() {
        let mut held = holders([Some(WEB), Some(BATCH), Some(WEB), Some(BATCH)]);
        let mut yielded = Vec::new();
        held.yield_unused([1, 9].into_iter(), |cpu, id| yielded.push((cpu, id)));
        assert_eq!(yielded, [(CpuId(2), WEB)]);
        assert_eq!(held, holders([Some(WEB), Some(BATCH), None, Some(BATCH)]));
        held.yield_unused([0, 2].into_iter(), |cpu, id| yielded.push((cpu, id)));
        assert_eq!(yielded[1..], [(CpuId(0), WEB)]);
    }

    #[test]
    fn best_effort_work_runs_where_it_holds_cpus() {
        let held = holders([Some(WEB), Some(BATCH), None, Some(BATCH)]);
        assert_eq!(held.room_for(BATCH, &cpus("0-3"), &cpus("0-3")), cpus("1,3"));
        assert_eq!(held.room_for(BATCH, &cpus("0-3"), &cpus("0-2")), cpus("1"), "a CPU that went offline is no one's");
    }

    #[test]
    fn who_holds_nothing_has_one_cpu_and_nobodys_if_there_is_one() {
        let some = holders([Some(WEB), None, None, Some(WEB)]);
        assert_eq!(some.room_for(BATCH, &cpus("2-3"), &cpus("0-3")), cpus("2"), "it stays");
        assert_eq!(some.room_for(BATCH, &cpus("3"), &cpus("0-3")), cpus("1"), "it moves to one that no one holds");
        let none = holders([Some(WEB); 4]);
        assert_eq!(none.room_for(BATCH, &cpus("3"), &cpus("0-3")), cpus("3"), "it stays where it was");
        assert_eq!(none.room_for(BATCH, &CpuSet::EMPTY, &cpus("2-3")), cpus("2"));
    }

    #[test]
    fn what_is_forgotten_holds_nothing() {
        let mut held = holders([Some(WEB), Some(BATCH), Some(WEB), None]);
        held.forget(WEB);
        assert_eq!((held.held_by(WEB), held.held_by(BATCH)), (CpuSet::EMPTY, cpus("1")));
        assert_eq!(held.hand(CpuId(9), Some(WEB)), None);
        assert_eq!(held.held_by(WEB), CpuSet::EMPTY);
    }
}
