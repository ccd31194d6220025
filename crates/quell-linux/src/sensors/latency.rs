//! Latencies and request rates that applications and load generators report.

use quell_model::{Capabilities, Nanos, Quality, Sample, Signal, SignalSet, Support, View, WorkloadId};

use super::{Sensor, of_slot};
use crate::LinuxError;
use crate::cgroup::Group;
use crate::members::Members;

/// The last that was fed, by slot.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    latencies: Vec<Sample<Nanos>>,
    rates: Vec<Sample<f64>>,
}

impl Latency {
    pub fn feed(&mut self, id: WorkloadId, sample: Sample<Nanos>) {
        *of_slot(&mut self.latencies, id) = sample;
    }

    pub fn feed_rate(&mut self, id: WorkloadId, sample: Sample<f64>) {
        *of_slot(&mut self.rates, id) = sample;
    }
}

impl Sensor for Latency {
    fn report(&self, _: &Members, found: &mut Capabilities) {
        let only = || Support::Partly("only for workloads whose latency is reported to the agent".into());
        found.signals.extend([Signal::Latency, Signal::RequestRate].map(|signal| (signal, only())));
    }

    fn begin(&mut self, id: WorkloadId, _: &[Group]) -> Result<(), LinuxError> {
        self.feed(id, Sample::default());
        self.feed_rate(id, Sample::default());
        Ok(())
    }

    fn observe(&mut self, wanted: SignalSet, members: &mut Members, view: &mut View) -> Result<(), LinuxError> {
        let now = view.now;
        let stale_after = members.options.latency_stale_after;
        let columns = &mut view.workloads;
        if wanted.contains(Signal::Latency) {
            copy(&self.latencies, members, now, stale_after, &mut columns.latency);
        }
        if wanted.contains(Signal::RequestRate) {
            copy(&self.rates, members, now, stale_after, &mut columns.request_rate);
        }
        Ok(())
    }
}

/// What was fed; old ones are stale.
fn copy<T: Copy>(fed: &[Sample<T>], members: &Members, now: Nanos, stale_after: Nanos, column: &mut [Sample<T>]) {
    for (slot, &fed) in fed.iter().enumerate().filter(|(slot, _)| members.slots[*slot].is_some()) {
        let stale = fed.quality > Quality::Stale && now - fed.at > stale_after;
        column[slot] = Sample { quality: if stale { Quality::Stale } else { fed.quality }, ..fed };
    }
}
