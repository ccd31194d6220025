//! What each workload uses and waits for.

use quell_model::{Capabilities, Nanos, Sample, Signal, SignalSet, Support, View};

use super::Sensor;
use crate::contention::MeasuredOfMemory;
use crate::host::members::Members;
use crate::kernel::Kernel;
use crate::sim::Tenant;
use crate::{Sim, TaskId};

const SIGNALS: [Signal; 5] =
    [Signal::QueueingDelay, Signal::RunTime, Signal::RunDelay, Signal::ThreadCount, Signal::CriticalRunTime];

#[derive(Clone, Debug, Default)]
pub(super) struct Usage;

impl Sensor for Usage {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        found.signals.extend(SIGNALS.map(|signal| (signal, Support::Yes)));
        let why = "the simulator has no sockets".into();
        let fix = "none: the queueing delay has all that waits".into();
        found.signals.insert(Signal::UnreadDelay, Support::No { why, fix });
        for signal in [Signal::WaitedForOthers, Signal::AttributionCost] {
            let why = "a running agent finds it out by tracing a kernel".into();
            let fix = "none: the run delay has all that waits".into();
            found.signals.insert(signal, Support::No { why, fix });
        }
    }

    fn observe(&mut self, wanted: SignalSet, members: &Members, sim: &mut Sim, view: &mut View) {
        let (now, kernel, columns) = (view.now, &sim.kernel, &mut view.workloads);
        let [delays, runs, waits, counts, critical] = SIGNALS.map(|signal| wanted.contains(signal));
        if !(delays || runs || waits || counts || critical) {
            return;
        }
        for (id, member) in members.each() {
            let (slot, tenant) = (id.index(), &sim.tenants[id.index()]);
            if delays {
                let delay = match tenant.load {
                    Some(load) => sim.queueing_delay(load, slot),
                    None => longest_wait(kernel, slot, tenant),
                };
                columns.queueing_delay[slot] = Sample::exact(delay, now);
            }
            if runs {
                columns.run_time[slot] = Sample::exact(sum(tenant, |task| kernel.run_time(task)), now);
            }
            if critical && member.spec.is_lc() {
                columns.critical_run_time[slot] = Sample::exact(sum(tenant, |task| kernel.run_time(task)), now);
            }
            if waits {
                columns.run_delay[slot] = Sample::exact(sum(tenant, |task| kernel.run_delay(task)), now);
            }
            if counts {
                columns.thread_count[slot] = Sample::exact(tenant.tasks.len() as u32, now);
            }
        }
    }
}

/// How long the vCPU that has waited longest has waited for a CPU.
fn longest_wait(kernel: &Kernel, number: usize, tenant: &Tenant) -> Nanos {
    let since = if kernel.grants_cpus() {
        kernel.grants.oldest(number).map(|task| kernel.task(task).runnable_since)
    } else {
        tenant.tasks.iter().filter_map(|&task| kernel.waits_since(task)).min()
    };
    Nanos(since.map_or(0, |since| kernel.now - since))
}

fn sum(tenant: &Tenant, of: impl Fn(TaskId) -> u64) -> Nanos {
    Nanos(tenant.tasks.iter().chain(&tenant.ended).map(|&task| of(task)).sum())
}
