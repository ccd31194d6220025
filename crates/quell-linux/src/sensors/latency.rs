//! Latencies that applications and load generators report.

use quell_model::{Capabilities, Nanos, Quality, Sample, Signal, SignalSet, Support, View, WorkloadId};

use super::{Sensor, of_slot};
use crate::LinuxError;
use crate::cgroup::Group;
use crate::members::Members;

/// The last that was fed, by slot.
#[derive(Debug, Default)]
pub(crate) struct Latency(Vec<Sample<Nanos>>);

impl Latency {
    pub fn feed(&mut self, id: WorkloadId, sample: Sample<Nanos>) {
        *of_slot(&mut self.0, id) = sample;
    }
}

impl Sensor for Latency {
    fn tell(&self, _: &Members, found: &mut Capabilities) {
        let only = "only of workloads whose latency is fed to the agent".into();
        found.signals.insert(Signal::Latency, Support::Partly(only));
    }

    fn begin(&mut self, id: WorkloadId, _: &[Group]) -> Result<(), LinuxError> {
        self.feed(id, Sample::default());
        Ok(())
    }

    fn observe(&mut self, wanted: SignalSet, members: &mut Members, view: &mut View) -> Result<(), LinuxError> {
        if !wanted.contains(Signal::Latency) {
            return Ok(());
        }
        let column = &mut view.workloads.latency;
        for (slot, &fed) in self.0.iter().enumerate().filter(|(slot, _)| members.slots[*slot].is_some()) {
            let stale = fed.quality > Quality::Stale && view.now - fed.at > members.options.latency_stale_after;
            column[slot] = Sample { quality: if stale { Quality::Stale } else { fed.quality }, ..fed };
        }
        Ok(())
    }
}
