//! What clients report of latency, as a measurement of their own would: once a period, each workload's tail over it.

use quell_model::{Nanos, Sample, Signal, SignalSet, View, WorkloadId};

use super::SimHost;
use crate::workload::Latencies;

/// A report's period ("an external measurement client that samples tail latencies over 500 ms periods", caladan-osdi20
/// §7). It covers the requests answered in it.
pub const REPORT: Nanos = Nanos::from_millis(500);

/// The last report.
#[derive(Clone, Debug)]
pub(super) struct Reports {
    /// When the next one began.
    began: Nanos,
    samples: Vec<Sample<Nanos>>,
}

impl Reports {
    /// A workload comes, of which nothing is reported yet.
    pub fn admit(&mut self, id: WorkloadId) {
        self.samples.resize(self.samples.len().max(id.index() + 1), Sample::default());
        self.samples[id.index()] = Sample::default();
    }
}

impl SimHost {
    /// Fills the column of latencies. Clients begin to report when somebody asks; a workload without an SLO has no
    /// quantile to report, and one that answered nothing in a period has no newer report.
    pub(super) fn fill_latencies(&mut self, wanted: SignalSet, view: &mut View) {
        if !wanted.contains(Signal::Latency) {
            return;
        }
        let now = self.sim.now();
        if self.reports.is_none() {
            self.sim.loads.iter_mut().for_each(|load| load.common.unreported = Some(Latencies::default()));
            self.reports = Some(Reports { began: now, samples: vec![Sample::default(); self.members.slots()] });
        }
        let Some(reports) = &mut self.reports else { return };
        let window = now - reports.began;
        if window >= REPORT {
            reports.began = now;
            for (id, member) in self.members.each() {
                let sample = &mut reports.samples[id.index()];
                let load = self.sim.tenants[id.index()].load;
                let load = load.map(|load| &mut self.sim.loads[load].common.unreported);
                let (Some(Some(latencies)), Some(slo)) = (load, member.spec.slo) else { continue };
                if latencies.count() > 0 {
                    *sample = Sample::over(latencies.quantile(slo.quantile), now, window);
                    latencies.clear();
                }
            }
        }
        view.workloads.latency.copy_from_slice(&reports.samples);
    }
}
