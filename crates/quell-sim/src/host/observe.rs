//! Filling the view.

use quell_model::{Class, CpuId, Nanos, Sample, Signal, SignalSet, ThreadState, View, WorkloadId};

use super::{Member, Members, SimHost, thread_id};
use crate::kernel::Kernel;
use crate::sim::Tenant;

impl SimHost {
    pub(super) fn fill(&mut self, wanted: SignalSet, view: &mut View) {
        let kernel = &self.sim.kernel;
        view.now = self.sim.now();
        view.cpus.online = kernel.online;
        view.cpus.banned = kernel.grants.banned;
        view.cpus.idle = kernel.online.iter().filter(|&cpu| kernel.running_on(cpu).is_none()).collect();
        self.members.tell(view);
        view.blank(wanted);
        let wanted = wanted.difference(self.withheld);
        self.fill_cpus(wanted, view);
        self.fill_workloads(wanted, view);
        self.fill_counters(wanted, view);
        self.fill_latencies(wanted, view);
        if wanted.contains_threads_of(Class::LatencyCritical) {
            self.fill_threads(wanted, view);
        }
    }

    fn fill_cpus(&self, wanted: SignalSet, view: &mut View) {
        let kernel = &self.sim.kernel;
        let now = view.now;
        view.cpus.holder.clear();
        if kernel.grants.is_on {
            view.cpus.holder.extend_from_slice(&kernel.grants.holder);
        } else if wanted.contains(Signal::Holder) {
            let on =
                |cpu: usize| kernel.running_on(CpuId(cpu as u32)).map(|task| WorkloadId(kernel.task(task).workload));
            view.cpus.holder.extend((0..kernel.cpus.len()).map(on));
        }
        if wanted.contains(Signal::RequestStart) {
            let start = |cpu| kernel.request_on(cpu).map_or(Sample::default(), |start| Sample::exact(start, now));
            view.cpus.request_start.extend((0..kernel.cpus.len()).map(start));
        }
    }

    fn fill_workloads(&self, wanted: SignalSet, view: &mut View) {
        let kernel = &self.sim.kernel;
        let now = view.now;
        let (tenants, columns) = ((&self.members, &self.sim.tenants[..]), &mut view.workloads);
        fill(wanted, Signal::QueueingDelay, &mut columns.queueing_delay, tenants, now, |number, tenant| {
            match tenant.load {
                Some(load) => self.sim.queueing_delay(load, number),
                None => longest_wait(kernel, number, tenant),
            }
        });
        fill(wanted, Signal::RunTime, &mut columns.run_time, tenants, now, |_, tenant| {
            sum(tenant, |task| kernel.run_time(task))
        });
        fill(wanted, Signal::RunDelay, &mut columns.run_delay, tenants, now, |_, tenant| {
            sum(tenant, |task| kernel.run_delay(task))
        });
        fill(wanted, Signal::ThreadCount, &mut columns.thread_count, tenants, now, |_, tenant| {
            tenant.tasks.len() as u32
        });
    }

    fn fill_threads(&self, wanted: SignalSet, view: &mut View) {
        let kernel = &self.sim.kernel;
        let columns = &mut view.threads;
        columns.at = self.sim.now();
        let is_wanted = |member: &Member| wanted.contains_threads_of(member.spec.class);
        for (id, _) in self.members.each().filter(|(_, member)| is_wanted(member)) {
            let tenant = &self.sim.tenants[id.index()];
            for &task in &tenant.tasks {
                let seen = kernel.task(task);
                columns.id.push(thread_id(task));
                columns.workload.push(id);
                columns.state.push(state(kernel, task));
                columns.cpu.push(CpuId(seen.cpu.min(kernel.cpus.len() - 1) as u32));
                columns.run_time.push(Nanos(kernel.run_time(task)));
                columns.run_delay.push(Nanos(kernel.run_delay(task)));
                columns.class.push(seen.class);
                if wanted.contains(Signal::Preemptions) {
                    columns.preemptions.push(Some(seen.preemptions));
                }
                if wanted.contains(Signal::LateStarts) {
                    columns.late_starts.push(Some(seen.late_starts));
                }
                if wanted.contains(Signal::WakeUps) {
                    let woken = thread_id(task);
                    let edges = kernel.wakers_of(task);
                    edges.iter().for_each(|&(by, count)| columns.wake_ups.push(Some(thread_id(by)), woken, count));
                }
            }
        }
    }
}

fn state(kernel: &Kernel, task: crate::TaskId) -> ThreadState {
    match kernel.task(task) {
        seen if seen.stopped => ThreadState::Stopped,
        _ if kernel.is_runnable(task) => ThreadState::Runnable,
        _ => ThreadState::Sleeping,
    }
}

/// How long the vCPU that has waited longest has waited for a CPU.
fn longest_wait(kernel: &Kernel, number: usize, tenant: &Tenant) -> Nanos {
    let since = if kernel.grants.is_on {
        kernel.grants.oldest(number).map(|task| kernel.task(task).runnable_since)
    } else {
        tenant.tasks.iter().filter_map(|&task| kernel.waits_since(task)).min()
    };
    Nanos(since.map_or(0, |since| kernel.now - since))
}

fn sum(tenant: &Tenant, of: impl Fn(crate::TaskId) -> u64) -> Nanos {
    Nanos(tenant.tasks.iter().chain(&tenant.ended).map(|&task| of(task)).sum())
}

/// Fills one column, if it is wanted; absent in slots that are empty.
fn fill<T: Copy + Default>(
    wanted: SignalSet,
    signal: Signal,
    column: &mut Vec<Sample<T>>,
    (members, tenants): (&Members, &[Tenant]),
    now: Nanos,
    value: impl Fn(usize, &Tenant) -> T,
) {
    if wanted.contains(signal) {
        column.clear();
        let of = |(number, tenant): (usize, &Tenant)| match members.has(WorkloadId(number as u32)) {
            true => Sample::exact(value(number, tenant), now),
            false => Sample::default(),
        };
        column.extend(tenants.iter().enumerate().map(of));
    }
}
