//! Threads: what each does, and who woke it.

use quell_model::{Capabilities, Class, CpuId, Nanos, Signal, SignalSet, Support, ThreadState, View};

use super::Sensor;
use crate::contention::MeasuredOfMemory;
use crate::host::members::{Member, Members};
use crate::host::thread_id;
use crate::kernel::Kernel;
use crate::{Sim, TaskId};

const SIGNALS: [Signal; 5] =
    [Signal::Threads, Signal::CriticalThreads, Signal::Preemptions, Signal::LateStarts, Signal::WakeUps];

#[derive(Clone, Debug, Default)]
pub(super) struct Threads;

impl Sensor for Threads {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        found.signals.extend(SIGNALS.map(|signal| (signal, Support::Yes)));
    }

    fn observe(&mut self, wanted: SignalSet, members: &Members, sim: &mut Sim, view: &mut View) {
        if !wanted.contains_threads_of(Class::LatencyCritical) {
            return;
        }
        let (kernel, columns) = (&sim.kernel, &mut view.threads);
        columns.at = view.now;
        let is_wanted = |member: &Member| wanted.contains_threads_of(member.spec.class);
        for (id, _) in members.each().filter(|(_, member)| is_wanted(member)) {
            for &task in &sim.tenants[id.index()].tasks {
                let seen = kernel.task(task);
                columns.id.push(thread_id(task));
                columns.workload.push(id);
                columns.state.push(state(kernel, task));
                columns.cpu.push(CpuId(seen.cpu.min(kernel.cpus.len() - 1) as u32));
                columns.run_time.push(Nanos(kernel.run_time(task)));
                columns.run_delay.push(Nanos(kernel.run_delay(task)));
                columns.class.push(seen.class);
                if wanted.contains(Signal::Preemptions) {
                    columns.preemptions.push(Some(seen.switching.preemptions));
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

fn state(kernel: &Kernel, task: TaskId) -> ThreadState {
    match kernel.task(task) {
        seen if seen.stopped => ThreadState::Stopped,
        _ if kernel.is_runnable(task) => ThreadState::Runnable,
        _ => ThreadState::Sleeping,
    }
}
