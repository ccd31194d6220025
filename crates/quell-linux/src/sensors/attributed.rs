//! What attribution found out, as it is fed by the thread that does it.

use quell_model::{Capabilities, Nanos, Sample, Signal, SignalSet, Support, View, WorkloadId};

use super::{Sensor, of_slot};
use crate::LinuxError;
use crate::cgroup::Group;
use crate::members::Members;

/// The last that was fed, by slot.
#[derive(Debug, Default)]
pub(crate) struct Attributed {
    for_others: Vec<Sample<Nanos>>,
    cost: Sample<Nanos>,
}

impl Attributed {
    pub fn feed(&mut self, id: WorkloadId, for_others: Sample<Nanos>) {
        *of_slot(&mut self.for_others, id) = for_others;
    }

    pub fn feed_cost(&mut self, cost: Sample<Nanos>) {
        self.cost = cost;
    }
}

impl Sensor for Attributed {
    fn report(&self, _: &Members, found: &mut Capabilities) {
        let only = || Support::Partly("by a running agent with attribution; an estimate between two bursts".into());
        found.signals.extend([Signal::WaitedForOthers, Signal::AttributionCost].map(|signal| (signal, only())));
    }

    fn begin(&mut self, id: WorkloadId, _: &[Group]) -> Result<(), LinuxError> {
        self.feed(id, Sample::default());
        Ok(())
    }

    fn observe(&mut self, wanted: SignalSet, members: &mut Members, view: &mut View) -> Result<(), LinuxError> {
        if wanted.contains(Signal::WaitedForOthers) {
            let fed = self.for_others.iter().zip(&members.slots).zip(&mut view.workloads.waited_for_others);
            for ((fed, _), column) in fed.filter(|((_, slot), _)| slot.is_some()) {
                *column = *fed;
            }
        }
        if wanted.contains(Signal::AttributionCost) {
            view.machine.attribution_cost = self.cost;
        }
        Ok(())
    }
}
