//! `classify_vcpus`: a service, memory-intensive, or neither.

use quell_model::view::at;
use quell_model::{Nanos, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::SdcLocalConfig;

/// Kind of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `ls`: latency-sensitive.
    Service,
    /// `mem`: memory-intensive.
    Memory,
    /// `nmem`: neither.
    Other,
}

/// One workload's intensity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Seen {
    /// Its run time at the last look.
    run_time: Nanos,
    /// Intensity over the threshold's, per second of CPU time.
    intensity: f64,
    is_intensive: bool,
}

/// Every workload's class, by slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Classes {
    seen: Vec<Seen>,
    /// Time of the last look.
    at: Nanos,
    /// Nothing was counted that identifies memory-intensive work.
    pub is_blind: bool,
}

/// A shorter time says too little.
const LEAST: Nanos = Nanos::from_millis(50);
/// A memory-intensive workload is that until its intensity is below this part of the threshold.
const STAYS: f64 = 0.5;

impl Classes {
    /// Takes in the last window.
    pub fn look(&mut self, view: &View, config: &SdcLocalConfig) {
        self.seen.resize(view.workloads.spec.len(), Seen::default());
        let span = view.now - self.at.min(view.now);
        if span < LEAST {
            return;
        }
        self.at = view.now;
        let mut is_blind = true;
        for (id, workload) in view.owned() {
            let seen = &mut self.seen[id.index()];
            let run_time = at(&view.workloads.run_time, id.index()).usable();
            let cpus = match run_time {
                Some(now) if seen.run_time <= now => (now - seen.run_time).as_secs_f64() / span.as_secs_f64(),
                _ => f64::from(workload.cpus.ceil().max(1)),
            };
            seen.run_time = run_time.unwrap_or_default();
            let full = at(&view.workloads.buffer_full_rate, id.index()).usable();
            let bytes = at(&view.workloads.memory_bandwidth, id.index()).usable();
            let rate = full
                .map(|rate| rate / config.intensive)
                .or_else(|| bytes.map(|bytes| bytes.0 / config.intensive_bandwidth.0));
            let Some(rate) = rate else { continue };
            is_blind = false;
            // Who hardly ran is what it was.
            if cpus < 0.01 {
                continue;
            }
            seen.intensity = rate / cpus;
            seen.is_intensive = seen.intensity >= if seen.is_intensive { STAYS } else { 1.0 };
        }
        self.is_blind = is_blind;
    }

    /// The class of a workload's units.
    pub fn kind(&self, view: &View, id: WorkloadId) -> Kind {
        match view.workload(id) {
            Some(workload) if workload.is_lc() => Kind::Service,
            _ if self.seen.get(id.index()).is_some_and(|seen| seen.is_intensive) => Kind::Memory,
            _ => Kind::Other,
        }
    }

    /// Intensity of a workload's units, of the threshold.
    pub fn intensity(&self, id: WorkloadId) -> f64 {
        self.seen.get(id.index()).map_or(0.0, |seen| seen.intensity)
    }

    /// The workload is gone.
    pub fn forget(&mut self, id: WorkloadId) {
        if let Some(seen) = self.seen.get_mut(id.index()) {
            *seen = Seen::default();
        }
    }
}
