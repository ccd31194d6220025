//! What clients report of latency, as a measurement of their own would: once a period, each workload's tail over it.

use quell_model::{Capabilities, Nanos, Sample, Signal, SignalSet, Support, View, WorkloadId};

use super::Sensor;
use crate::Sim;
use crate::contention::MeasuredOfMemory;
use crate::host::members::Members;
use crate::workload::Latencies;

/// A report's period ("an external measurement client that samples tail latencies over 500 ms periods", caladan-osdi20
/// §7). It covers the requests answered in it.
pub const REPORT: Nanos = Nanos::from_millis(500);

/// Clients begin to report when a policy asks for it; a workload without an SLO has no quantile to report, and one that
/// answered nothing in a period has no newer report.
#[derive(Clone, Debug, Default)]
pub(super) struct Latency(Option<Reports>);

/// The last report.
#[derive(Clone, Debug)]
struct Reports {
    /// When the next one began.
    began: Nanos,
    samples: Vec<Sample<Nanos>>,
    rates: Vec<Sample<f64>>,
}

impl Sensor for Latency {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        found.signals.extend([Signal::Latency, Signal::RequestRate].map(|signal| (signal, Support::Yes)));
    }

    fn admit(&mut self, id: WorkloadId, sim: &mut Sim) {
        let Some(reports) = &mut self.0 else { return };
        reports.samples.resize(reports.samples.len().max(id.index() + 1), Sample::default());
        reports.samples[id.index()] = Sample::default();
        reports.rates.resize(reports.samples.len(), Sample::default());
        reports.rates[id.index()] = Sample::default();
        if let Some(load) = sim.tenants[id.index()].load {
            sim.loads[load].common.unreported = Some(Latencies::default());
        }
    }

    fn observe(&mut self, wanted: SignalSet, members: &Members, sim: &mut Sim, view: &mut View) {
        if !wanted.contains(Signal::Latency) && !wanted.contains(Signal::RequestRate) {
            return;
        }
        let now = view.now;
        let reports = self.0.get_or_insert_with(|| {
            sim.loads.iter_mut().for_each(|load| load.common.unreported = Some(Latencies::default()));
            Reports {
                began: now,
                samples: vec![Sample::default(); members.slots()],
                rates: vec![Sample::default(); members.slots()],
            }
        });
        let window = now - reports.began;
        if window >= REPORT {
            reports.began = now;
            for (id, member) in members.each() {
                let sample = &mut reports.samples[id.index()];
                let load = sim.tenants[id.index()].load.map(|load| &mut sim.loads[load].common.unreported);
                let Some(Some(latencies)) = load else { continue };
                let rate = latencies.count() as f64 / window.as_secs_f64();
                reports.rates[id.index()] = Sample::over(rate, now, window);
                let Some(slo) = member.spec.slo else {
                    latencies.clear();
                    continue;
                };
                if latencies.count() > 0 {
                    *sample = Sample::over(latencies.quantile(slo.quantile), now, window);
                    latencies.clear();
                }
            }
        }
        if wanted.contains(Signal::Latency) {
            view.workloads.latency.copy_from_slice(&reports.samples);
        }
        if wanted.contains(Signal::RequestRate) {
            view.workloads.request_rate.copy_from_slice(&reports.rates);
        }
    }
}
