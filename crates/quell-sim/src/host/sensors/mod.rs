//! What the host measures, a file each. To add one: a file with a [`Sensor`] and its line in [`Sensors`].

mod counters;
mod cpus;
mod latency;
mod softirqs;
mod threads;
mod usage;

use std::fmt::Debug;

use quell_model::{Capabilities, SignalSet, View, WorkloadId};

pub use latency::REPORT;

use super::members::Members;
use crate::Sim;
use crate::contention::MeasuredOfMemory;
use counters::Counters;
use cpus::Cpus;
use latency::Latency;
use softirqs::SoftInterrupts;
use threads::Threads;
use usage::Usage;

/// Measures some signals. It knows the machine and who is managed, not the host.
pub(super) trait Sensor: Debug {
    /// Says what it measures where so much of memory can be measured.
    fn report(&self, of_memory: MeasuredOfMemory, found: &mut Capabilities);

    /// A workload comes into this slot: what was measured there before is another's.
    fn admit(&mut self, _id: WorkloadId, _sim: &mut Sim) {}

    /// Fills what is wanted of its signals into the view, whose wanted columns of workloads are absent everywhere so far, and
    /// the others empty.
    fn observe(&mut self, wanted: SignalSet, members: &Members, sim: &mut Sim, view: &mut View);
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Sensors {
    cpus: Cpus,
    usage: Usage,
    pub counters: Counters,
    latency: Latency,
    threads: Threads,
    interrupts: SoftInterrupts,
}

impl Sensors {
    /// Those of this machine.
    pub fn of(sim: &Sim) -> Sensors {
        Sensors { counters: Counters::of(sim), ..Sensors::default() }
    }

    fn all(&self) -> [&dyn Sensor; 6] {
        let Sensors { cpus, usage, counters, latency, threads, interrupts } = self;
        [cpus, usage, counters, latency, threads, interrupts]
    }

    fn all_mut(&mut self) -> [&mut dyn Sensor; 6] {
        let Sensors { cpus, usage, counters, latency, threads, interrupts } = self;
        [cpus, usage, counters, latency, threads, interrupts]
    }

    pub fn report(&self, of_memory: MeasuredOfMemory, found: &mut Capabilities) {
        self.all().into_iter().for_each(|sensor| sensor.report(of_memory, found));
    }

    pub fn admit(&mut self, id: WorkloadId, sim: &mut Sim) {
        self.all_mut().into_iter().for_each(|sensor| sensor.admit(id, sim));
    }

    pub fn observe(&mut self, wanted: SignalSet, members: &Members, sim: &mut Sim, view: &mut View) {
        self.all_mut().into_iter().for_each(|sensor| sensor.observe(wanted, members, sim, view));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quell_model::Signal;

    use super::*;

    #[test]
    fn each_signal_is_one_sensors_and_all_are_answered() {
        for of_memory in [MeasuredOfMemory::Nothing, MeasuredOfMemory::Slowdown, MeasuredOfMemory::Everything] {
            let mut known = BTreeSet::new();
            for sensor in Sensors::default().all() {
                let mut found = Capabilities::default();
                sensor.report(of_memory, &mut found);
                found.signals.into_keys().for_each(|signal| assert!(known.insert(signal), "{signal:?}: {sensor:?}"));
            }
            assert!(Signal::ALL.iter().all(|signal| known.contains(signal)), "{known:?}");
        }
    }
}
