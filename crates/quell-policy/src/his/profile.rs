//! The profiler: what the foreground uses alone, what it uses beside others, and the difference, which is the
//! contention (snu2020 §3.4.1).

use quell_model::knob::Settling;
use quell_model::view::at;
use quell_model::{Nanos, Sample, View, WorkloadId};
use serde::{Deserialize, Serialize};

/// A resource that workloads contend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// The last-level cache.
    Llc,
    /// Memory bandwidth.
    MemoryBandwidth,
    /// CPU time.
    Cpu,
}

impl Resource {
    /// Every resource.
    pub const ALL: [Resource; 3] = [Resource::Llc, Resource::MemoryBandwidth, Resource::Cpu];

    /// Its name in field terms.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Resource::Llc => "LLC",
            Resource::MemoryBandwidth => "memory bandwidth",
            Resource::Cpu => "CPU",
        }
    }
}

/// What a workload used over a while; None where it was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// LLC hits per reference, 0–1.
    pub llc_hit_ratio: Option<f64>,
    /// Bytes per second.
    pub memory_bandwidth: Option<f64>,
    /// CPUs' worth of run time.
    pub cpus: Option<f64>,
    /// Threads.
    pub threads: Option<u32>,
}

/// Reads a workload's usage from one view after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Meter {
    /// Run time at the last reading.
    last: Option<(Nanos, Nanos)>,
}

impl Meter {
    /// What the workload used since the last reading; what was measured before everything settled is left out.
    pub fn read(&mut self, view: &View, id: WorkloadId, settling: &Settling) -> Usage {
        let columns = &view.workloads;
        let run_time = at(&columns.run_time, id.index());
        let before = self.last.take();
        self.last = run_time.usable().map(|used| (run_time.at, used));
        let cpus = before
            .zip(self.last)
            .filter(|((from, _), (to, _))| to > from)
            .filter(|((from, _), _)| settling.is_over_for(*from, Nanos::ZERO));
        Usage {
            llc_hit_ratio: settled(at(&columns.llc_hit_ratio, id.index()), settling),
            memory_bandwidth: settled(at(&columns.memory_bandwidth, id.index()), settling).map(|rate| rate.0),
            cpus: cpus.map(|((from, first), (to, last))| (last - first).0 as f64 / (to - from).0 as f64),
            threads: at(&columns.thread_count, id.index()).usable(),
        }
    }
}

fn settled<T: Copy>(sample: Sample<T>, settling: &Settling) -> Option<T> {
    sample.usable().filter(|_| settling.is_over_for(sample.at, sample.window))
}

/// The mean of several usages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Mean {
    llc_hit_ratio: (f64, u32),
    memory_bandwidth: (f64, u32),
    cpus: (f64, u32),
    threads: Option<u32>,
}

impl Mean {
    /// Takes one in.
    pub fn add(&mut self, usage: &Usage) {
        let take = |mean: &mut (f64, u32), value: Option<f64>| {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                *mean = (mean.0 + value, mean.1 + 1);
            }
        };
        take(&mut self.llc_hit_ratio, usage.llc_hit_ratio);
        take(&mut self.memory_bandwidth, usage.memory_bandwidth);
        take(&mut self.cpus, usage.cpus);
        self.threads = usage.threads.or(self.threads);
    }

    /// The mean; None if no resource was measured.
    pub fn usage(&self) -> Option<Usage> {
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        let usage = Usage {
            llc_hit_ratio: mean(self.llc_hit_ratio),
            memory_bandwidth: mean(self.memory_bandwidth),
            cpus: mean(self.cpus),
            threads: self.threads,
        };
        let measured = [usage.llc_hit_ratio, usage.memory_bandwidth, usage.cpus];
        measured.iter().any(Option::is_some).then_some(usage)
    }
}

/// Solo-run data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Solo {
    /// What the foreground used alone.
    pub usage: Usage,
    /// When it was measured.
    pub at: Nanos,
}

/// The difference of co-run and solo-run per resource: negative where the foreground gets less than alone.
///
/// The dissertation gives the formulas for LLC and memory bandwidth in §4.3.1. For the CPU, whose metric chapter 3 does
/// not state, we take CPU time per second in the same form.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Contention {
    diffs: [Option<f64>; 3],
}

impl Contention {
    /// Co-run against solo-run.
    #[must_use]
    pub fn between(solo: &Usage, co_run: &Usage) -> Contention {
        let ratio = |solo: Option<f64>, co_run: Option<f64>| {
            solo.zip(co_run).filter(|(solo, _)| *solo > 0.0).map(|(solo, co_run)| co_run / solo - 1.0)
        };
        let llc = solo.llc_hit_ratio.zip(co_run.llc_hit_ratio).map(|(solo, co_run)| co_run - solo);
        let bandwidth = ratio(solo.memory_bandwidth, co_run.memory_bandwidth);
        Contention { diffs: [llc, bandwidth, ratio(solo.cpus, co_run.cpus)] }
    }

    /// The difference for one resource; None where it was not measured.
    #[must_use]
    pub fn of(&self, resource: Resource) -> Option<f64> {
        self.diffs[resource as usize]
    }

    /// The most contentious resource, if one lies below the solo run by more than the threshold.
    #[must_use]
    pub fn dominant(&self, threshold: f64) -> Option<Resource> {
        let contended = |resource: &Resource| self.of(*resource).is_some_and(|diff| diff < -threshold);
        let least =
            |a: &Resource, b: &Resource| self.of(*a).unwrap_or_default().total_cmp(&self.of(*b).unwrap_or_default());
        Resource::ALL.into_iter().filter(contended).min_by(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(llc_hit_ratio: f64, memory_bandwidth: f64, cpus: f64) -> Usage {
        let (llc_hit_ratio, memory_bandwidth) = (Some(llc_hit_ratio), Some(memory_bandwidth));
        Usage { llc_hit_ratio, memory_bandwidth, cpus: Some(cpus), threads: Some(1) }
    }

    #[test]
    fn the_most_negative_difference_is_dominant() {
        let solo = usage(0.9, 10e9, 2.0);
        let contention = Contention::between(&solo, &usage(0.7, 7e9, 2.0));
        assert_eq!(contention.dominant(0.05), Some(Resource::MemoryBandwidth));
        let contention = Contention::between(&solo, &usage(0.5, 9e9, 2.0));
        assert_eq!(contention.dominant(0.05), Some(Resource::Llc));
        assert_eq!(Contention::between(&solo, &usage(0.87, 9.8e9, 1.95)).dominant(0.05), None);
    }

    #[test]
    fn what_was_not_measured_is_no_contention() {
        let solo = Usage { llc_hit_ratio: None, ..usage(0.9, 0.0, 2.0) };
        let contention = Contention::between(&solo, &usage(0.1, 5e9, 2.0));
        assert_eq!((contention.of(Resource::Llc), contention.of(Resource::MemoryBandwidth)), (None, None));
        assert_eq!(contention.dominant(0.05), None);
    }

    #[test]
    fn a_mean_of_nothing_is_no_data() {
        let mut mean = Mean::default();
        assert_eq!(mean.usage(), None);
        mean.add(&usage(0.8, 4e9, 1.0));
        mean.add(&usage(0.6, 8e9, 3.0));
        assert_eq!(mean.usage(), Some(Usage { threads: Some(1), ..usage(0.7, 6e9, 2.0) }));
    }
}
