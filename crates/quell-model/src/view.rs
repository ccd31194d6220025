//! What a policy sees: structure of arrays, filled by the host once a step, only what the policy asked for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    BytesPerSecond, CpuId, CpuSet, Nanos, Sample, SchedClass, Scope, ThreadId, ThreadState, Topology, Workload,
    WorkloadId,
};

/// One step's view. Columns of signals that the policy did not ask for stay empty; reading them gives an absent sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The host's time of this view.
    pub now: Nanos,
    /// The machine's CPUs.
    pub topology: Arc<Topology>,
    /// What this policy instance owns.
    pub scope: Scope,
    /// Per workload, by [`WorkloadId`].
    pub workloads: WorkloadColumns,
    /// Per CPU, by [`CpuId`].
    pub cpus: CpuColumns,
    /// Per thread, in no particular order; only where asked for.
    pub threads: ThreadColumns,
    /// The whole machine's memory bandwidth in use.
    pub memory_bandwidth: Sample<BytesPerSecond>,
    /// How many times its quiet latency the machine's memory takes to answer.
    #[serde(default)]
    pub memory_slowdown: Sample<f64>,
}

/// Per-workload columns. All that are filled have the length of `spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadColumns {
    /// The workload in each slot; None: the slot is free.
    pub spec: Vec<Option<Arc<Workload>>>,
    /// How long the oldest waiting item has waited.
    pub queueing_delay: Vec<Sample<Nanos>>,
    /// How long the oldest unread data of its sockets has waited; of latency-critical workloads.
    pub unread_delay: Vec<Sample<Nanos>>,
    /// CPU time used since it attached.
    pub run_time: Vec<Sample<Nanos>>,
    /// Time its threads were runnable without running, since it attached.
    pub run_delay: Vec<Sample<Nanos>>,
    /// Number of threads.
    pub thread_count: Vec<Sample<u32>>,
    /// The SLO's quantile of latency.
    pub latency: Vec<Sample<Nanos>>,
    /// LLC hits per reference, 0–1.
    pub llc_hit_ratio: Vec<Sample<f64>>,
    /// Memory bandwidth used.
    pub memory_bandwidth: Vec<Sample<BytesPerSecond>>,
    /// Instructions retired per second.
    pub instruction_rate: Vec<Sample<f64>>,
}

/// Per-CPU columns. All that are filled have the length [`Topology::columns`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuColumns {
    /// CPUs that are online.
    pub online: CpuSet,
    /// Granted CPUs on which nothing runs: their workload yielded, or nobody has them.
    pub idle: CpuSet,
    /// CPUs that a sibling ban parks.
    pub banned: CpuSet,
    /// CPUs that a thread of a higher scheduling class has: nobody's to hand out until it sleeps.
    pub away: CpuSet,
    /// The workload that a CPU is granted to; None once it yielded.
    pub holder: Vec<Option<WorkloadId>>,
    /// When the request that the CPU works on began; absent where it works on none.
    pub request_start: Vec<Sample<Nanos>>,
    /// LLC misses since an arbitrary start, as of the last sample that was asked for.
    pub llc_misses: Vec<Sample<u64>>,
}

/// Per-thread columns, all of one length, read at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadColumns {
    /// When they were read.
    pub at: Nanos,
    /// Which thread.
    pub id: Vec<ThreadId>,
    /// The workload that it belongs to.
    pub workload: Vec<WorkloadId>,
    /// What it does.
    pub state: Vec<ThreadState>,
    /// The CPU that it runs on or ran on last.
    pub cpu: Vec<CpuId>,
    /// CPU time used since it was born.
    pub run_time: Vec<Nanos>,
    /// Time it was runnable without running, since it was born.
    pub run_delay: Vec<Nanos>,
    /// Its scheduling class at the moment.
    pub class: Vec<SchedClass>,
    /// Times it lost its CPU although it could have gone on, since it is traced; None: it is not. Empty unless wanted.
    pub preemptions: Vec<Option<u64>>,
    /// Who woke whom. Empty unless wanted.
    pub wake_ups: WakeUpColumns,
}

/// Wake-up edges between threads, all columns of one length, in the order of the woken. Wake-ups from interrupts have no
/// waker and are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WakeUpColumns {
    /// Who woke; None: a thread that is of no workload.
    pub waker: Vec<Option<ThreadId>>,
    /// Who was woken.
    pub woken: Vec<ThreadId>,
    /// How often, since both are traced.
    pub count: Vec<u64>,
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
            workloads: WorkloadColumns::default(),
            cpus: CpuColumns { online, ..CpuColumns::default() },
            threads: ThreadColumns::default(),
            memory_bandwidth: Sample::default(),
            memory_slowdown: Sample::default(),
        }
    }

    /// Becomes equal to the other view and keeps its own columns' memory: allocates nothing once they are large enough.
    pub fn copy_from(&mut self, other: &View) {
        let View { now, topology, scope, workloads, cpus, threads, memory_bandwidth, memory_slowdown } = other;
        self.now = *now;
        if !Arc::ptr_eq(&self.topology, topology) {
            self.topology = Arc::clone(topology);
        }
        self.scope.workloads.clone_from(&scope.workloads);
        self.scope.pool = scope.pool;
        self.scope.knobs.clone_from(&scope.knobs);
        self.workloads.copy_from(workloads);
        self.cpus.copy_from(cpus);
        self.threads.copy_from(threads);
        self.memory_bandwidth = *memory_bandwidth;
        self.memory_slowdown = *memory_slowdown;
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
}

/// The sample of a workload or CPU in a column; absent where the column was not asked for.
#[must_use]
pub fn at<T: Copy + Default>(column: &[Sample<T>], index: usize) -> Sample<T> {
    column.get(index).copied().unwrap_or_default()
}

impl WorkloadColumns {
    fn copy_from(&mut self, other: &WorkloadColumns) {
        let WorkloadColumns {
            spec,
            queueing_delay,
            unread_delay,
            run_time,
            run_delay,
            thread_count,
            latency,
            llc_hit_ratio,
            memory_bandwidth,
            instruction_rate,
        } = other;
        self.spec.clone_from(spec);
        self.queueing_delay.clone_from(queueing_delay);
        self.unread_delay.clone_from(unread_delay);
        self.run_time.clone_from(run_time);
        self.run_delay.clone_from(run_delay);
        self.thread_count.clone_from(thread_count);
        self.latency.clone_from(latency);
        self.llc_hit_ratio.clone_from(llc_hit_ratio);
        self.memory_bandwidth.clone_from(memory_bandwidth);
        self.instruction_rate.clone_from(instruction_rate);
    }
}

impl CpuColumns {
    fn copy_from(&mut self, other: &CpuColumns) {
        let CpuColumns { online, idle, banned, away, holder, request_start, llc_misses } = other;
        self.online = *online;
        self.idle = *idle;
        self.banned = *banned;
        self.away = *away;
        self.holder.clone_from(holder);
        self.request_start.clone_from(request_start);
        self.llc_misses.clone_from(llc_misses);
    }
}

impl ThreadColumns {
    fn copy_from(&mut self, other: &ThreadColumns) {
        let ThreadColumns { at, id, workload, state, cpu, run_time, run_delay, class, preemptions, wake_ups } = other;
        self.at = *at;
        self.id.clone_from(id);
        self.workload.clone_from(workload);
        self.state.clone_from(state);
        self.cpu.clone_from(cpu);
        self.run_time.clone_from(run_time);
        self.run_delay.clone_from(run_delay);
        self.class.clone_from(class);
        self.preemptions.clone_from(preemptions);
        self.wake_ups.copy_from(wake_ups);
    }

    /// How many threads there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// Is there no thread?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    /// Empties every column and keeps its memory.
    pub fn clear(&mut self) {
        self.id.clear();
        self.workload.clear();
        self.state.clear();
        self.cpu.clear();
        self.run_time.clear();
        self.run_delay.clear();
        self.class.clear();
        self.preemptions.clear();
        self.wake_ups.clear();
    }
}

impl WakeUpColumns {
    fn copy_from(&mut self, other: &WakeUpColumns) {
        let WakeUpColumns { waker, woken, count } = other;
        self.waker.clone_from(waker);
        self.woken.clone_from(woken);
        self.count.clone_from(count);
    }

    /// Empties every column and keeps its memory.
    pub fn clear(&mut self) {
        self.waker.clear();
        self.woken.clear();
        self.count.clear();
    }

    /// Adds an edge.
    pub fn push(&mut self, waker: Option<ThreadId>, woken: ThreadId, count: u64) {
        self.waker.push(waker);
        self.woken.push(woken);
        self.count.push(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, CpuCount};

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
