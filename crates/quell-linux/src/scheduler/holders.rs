//! Who holds which CPU, and where that lets a workload run.

use quell_model::{CpuId, CpuSet, WorkloadId};

use crate::sensors::Activity;

/// By CPU: who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holders {
    holder: Vec<Option<WorkloadId>>,
}

impl Holders {
    /// Nobody holds any of so many CPUs.
    pub fn of(cpus: usize) -> Holders {
        Holders { holder: vec![None; cpus] }
    }

    /// By CPU.
    pub fn all(&self) -> &[Option<WorkloadId>] {
        &self.holder
    }

    /// Hands a CPU on; returns who held it. A CPU beyond the machine's is nobody's.
    pub fn hand(&mut self, cpu: CpuId, to: Option<WorkloadId>) -> Option<WorkloadId> {
        self.holder.get_mut(cpu.index()).and_then(|holder| std::mem::replace(holder, to))
    }

    /// Takes all its CPUs from a workload.
    pub fn forget(&mut self, id: WorkloadId) {
        self.holder.iter_mut().filter(|holder| **holder == Some(id)).for_each(|holder| *holder = None);
    }

    /// The CPUs that the workload holds.
    pub fn held_by(&self, id: WorkloadId) -> CpuSet {
        self.those(|holder| holder == Some(id))
    }

    fn those(&self, wanted: impl Fn(Option<WorkloadId>) -> bool) -> CpuSet {
        let cpus = (0..self.holder.len() as u32).map(CpuId);
        cpus.filter(|cpu| wanted(self.holder[cpu.index()])).collect()
    }

    /// Who holds more CPUs than it has threads that run or wait yields the rest, the highest first. `activities` by slot.
    pub fn yield_unused(&mut self, activities: &[Activity], mut told: impl FnMut(CpuId, WorkloadId)) {
        for (slot, activity) in activities.iter().enumerate() {
            let id = WorkloadId(slot as u32);
            let held = self.held_by(id);
            let keeps = held.iter().take(activity.runnable as usize).collect();
            for cpu in held.difference(&keeps).iter() {
                self.hand(cpu, None);
                told(cpu, id);
            }
        }
    }

    /// Where a best-effort workload may run that is bound to these CPUs now: where it holds CPUs, else on one, since a
    /// thread must be somewhere. That is one where it is already, if nobody holds it, or the first that nobody holds, or one
    /// where it is.
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

    fn runnable(threads: u32) -> Activity {
        Activity { runnable: threads, ..Activity::default() }
    }

    #[test]
    fn who_has_fewer_threads_than_cpus_yields_the_rest() {
        let mut held = holders([Some(WEB), Some(BATCH), Some(WEB), Some(BATCH)]);
        let mut yielded = Vec::new();
        held.yield_unused(&[runnable(1), runnable(9)], |cpu, id| yielded.push((cpu, id)));
        assert_eq!(yielded, [(CpuId(2), WEB)]);
        assert_eq!(held, holders([Some(WEB), Some(BATCH), None, Some(BATCH)]));
        held.yield_unused(&[runnable(0), runnable(2)], |cpu, id| yielded.push((cpu, id)));
        assert_eq!(yielded[1..], [(CpuId(0), WEB)]);
    }

    #[test]
    fn best_effort_work_runs_where_it_holds_cpus() {
        let held = holders([Some(WEB), Some(BATCH), None, Some(BATCH)]);
        assert_eq!(held.room_for(BATCH, &cpus("0-3"), &cpus("0-3")), cpus("1,3"));
        assert_eq!(held.room_for(BATCH, &cpus("0-3"), &cpus("0-2")), cpus("1"), "a CPU that went offline is nobody's");
    }

    #[test]
    fn who_holds_nothing_has_one_cpu_and_nobodys_if_there_is_one() {
        let some = holders([Some(WEB), None, None, Some(WEB)]);
        assert_eq!(some.room_for(BATCH, &cpus("2-3"), &cpus("0-3")), cpus("2"), "it stays");
        assert_eq!(some.room_for(BATCH, &cpus("3"), &cpus("0-3")), cpus("1"), "it moves to one that nobody holds");
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
