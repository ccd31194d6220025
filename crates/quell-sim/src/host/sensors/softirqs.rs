//! Soft interrupts by workload: packets of its requests, merged by the network card as they get denser, so that the rate of
//! interrupts saturates with the load (his-edgeiso-sdc-snu2020 Figure 5.4).

use quell_model::{Capabilities, Nanos, Sample, Signal, SignalSet, Support, View, WorkloadId};

use super::Sensor;
use crate::Sim;
use crate::contention::MeasuredOfMemory;
use crate::host::members::Members;

/// Interrupts nearer to each other than this are merged, seconds (assumed, of the order of usual coalescing).
const MERGED: f64 = 20e-6;
/// A rate is of this time at least.
const WINDOW: Nanos = Nanos::from_millis(100);

/// A workload's.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The last look, and requests that had arrived then.
    before: Option<(Nanos, u64)>,
    rate: Sample<f64>,
}

/// Those of all workloads, by slot.
#[derive(Clone, Debug, Default)]
pub(super) struct SoftInterrupts(Vec<Seen>);

/// Interrupts a second of this many packets a second.
fn merged(rate: f64) -> f64 {
    rate / (1.0 + rate * MERGED)
}

impl Sensor for SoftInterrupts {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        let why = "of requests' packets alone, merged where they are nearer than 20 µs";
        found.signals.insert(Signal::SoftInterrupts, Support::Partly(why.into()));
    }

    fn admit(&mut self, id: WorkloadId, _: &mut Sim) {
        if let Some(seen) = self.0.get_mut(id.index()) {
            *seen = Seen::default();
        }
    }

    fn observe(&mut self, wanted: SignalSet, members: &Members, sim: &mut Sim, view: &mut View) {
        if !wanted.contains(Signal::SoftInterrupts) {
            return;
        }
        let now = view.now;
        self.0.resize(members.slots(), Seen::default());
        for (id, _) in members.each() {
            let seen = &mut self.0[id.index()];
            if seen.before.is_none_or(|(at, _)| now >= at + WINDOW) {
                let load = sim.tenants[id.index()].load;
                let arrived = load.map_or(0, |load| sim.loads[load].common.stats.arrived);
                if let Some((at, had)) = seen.before.replace((now, arrived)) {
                    // The count begins anew where a measured time begins.
                    let came = arrived.checked_sub(had).unwrap_or(arrived) as f64;
                    seen.rate = Sample::over(merged(came / (now - at).as_secs_f64()), now, now - at);
                }
            }
            view.workloads.soft_interrupt_rate[id.index()] = seen.rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::merged;

    #[test]
    fn denser_packets_are_merged_and_the_rate_saturates() {
        assert!((merged(1e3) / 1e3 - 1.0).abs() < 0.03, "few come alone");
        assert!(merged(1e5) < 0.5e5 && merged(1e7) < 1.0 / super::MERGED, "many together");
    }
}
