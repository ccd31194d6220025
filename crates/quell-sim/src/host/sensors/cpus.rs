//! CPUs: which are online, idle and banned, who holds each, and since when it works on its request.

use quell_model::{Capabilities, CpuId, Sample, Signal, SignalSet, Support, View, WorkloadId};

use super::Sensor;
use crate::Sim;
use crate::contention::MeasuredOfMemory;
use crate::host::members::Members;

#[derive(Clone, Debug, Default)]
pub(super) struct Cpus;

impl Sensor for Cpus {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        found.signals.extend([Signal::Holder, Signal::RequestStart].map(|signal| (signal, Support::Yes)));
    }

    fn observe(&mut self, wanted: SignalSet, _: &Members, sim: &mut Sim, view: &mut View) {
        let (kernel, now) = (&sim.kernel, view.now);
        view.cpus.online = kernel.masks.online;
        view.cpus.banned = kernel.grants.banned;
        view.cpus.idle = kernel.masks.online.iter().filter(|&cpu| kernel.running_on(cpu).is_none()).collect();
        view.cpus.holder.clear();
        if kernel.grants_cpus() {
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
}
