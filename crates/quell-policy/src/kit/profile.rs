//! A workload's usage, alone and beside others (snu2020 §3.4.1, "Profiler").

use quell_model::knob::Settling;
use quell_model::view::at;
use quell_model::{Nanos, Sample, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::noise::{Looks, Spread};

/// A workload's usage over a span; None where it was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// LLC hits per reference, 0–1.
    pub llc_hit_ratio: Option<f64>,
    /// Bytes per second.
    pub memory_bandwidth: Option<f64>,
    /// CPUs' worth of run time.
    pub cpus: Option<f64>,
    /// Instructions per second.
    #[serde(default)]
    pub instructions: Option<f64>,
    /// Mean number of threads that ran or waited for a CPU.
    #[serde(default)]
    pub active: Option<f64>,
    /// Threads.
    pub threads: Option<u32>,
}

impl Usage {
    /// Are these two solo runs of one phase: the same number of threads, hits and, per CPU time, bytes? (Ours.) Contention
    /// may look like another phase where a workload uses hardly anything of a resource alone.
    pub fn is_of_the_same_phase(&self, other: &Usage) -> bool {
        let near = |one: Option<f64>, other: Option<f64>, most: f64| {
            one.zip(other).is_none_or(|(one, other)| (one - other).abs() <= most * one.abs().max(other.abs()))
        };
        let few = |of: &Usage| of.bytes_a_cpu().is_none() || of.moves_few_bytes();
        let traffic = (few(self) && few(other)) || near(self.bytes_a_cpu(), other.bytes_a_cpu(), 0.25);
        self.threads == other.threads && near(self.llc_hit_ratio, other.llc_hit_ratio, 0.1) && traffic
    }

    /// Is any resource's use measured?
    fn has_anything(&self) -> bool {
        [self.llc_hit_ratio, self.memory_bandwidth, self.cpus].iter().any(Option::is_some)
    }

    /// Bytes a second of CPU time.
    #[must_use]
    pub fn bytes_a_cpu(&self) -> Option<f64> {
        self.memory_bandwidth.zip(self.cpus.filter(|cpus| *cpus > 0.0)).map(|(bytes, cpus)| bytes / cpus)
    }

    /// Does it move hardly any bytes? Then it is no victim of memory bandwidth, whatever its bytes do.
    #[must_use]
    pub fn moves_few_bytes(&self) -> bool {
        self.bytes_a_cpu().is_some_and(|bytes| bytes < FEW_BYTES)
    }
}

/// Fewer bytes a second of CPU time are nothing to a memory controller. An assumption of ours: they are 780,000 lines, which at
/// 100 ns each, one after the other, take 8 % of the time.
const FEW_BYTES: f64 = 50e6;

/// Reads a workload's usage from one view after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meter {
    /// Run time at the last reading.
    last: Option<(Nanos, Nanos)>,
    /// Run delay at the last reading.
    #[serde(default)]
    last_delay: Option<Nanos>,
}

impl Meter {
    /// The workload's usage since the last reading; values from before everything settled are left out.
    pub fn read(&mut self, view: &View, id: WorkloadId, settling: &Settling) -> Usage {
        let columns = &view.workloads;
        let run_time = at(&columns.run_time, id.index());
        let before = self.last.take();
        self.last = run_time.usable().map(|used| (run_time.at, used));
        let delay_before = self.last_delay.take();
        self.last_delay = at(&columns.run_delay, id.index()).usable();
        let span = before
            .zip(self.last)
            .filter(|((from, _), (to, _))| to > from)
            .filter(|((from, _), _)| settling.is_over_for(*from, Nanos::ZERO));
        let rate = |more: Nanos, from: Nanos, to: Nanos| more.0 as f64 / (to - from).0 as f64;
        let cpus = span.map(|((from, first), (to, last))| rate(last - first, from, to));
        let delays = span.zip(delay_before.zip(self.last_delay));
        let waiting = delays.map(|(((from, _), (to, _)), (first, last))| rate(last.max(first) - first, from, to));
        Usage {
            llc_hit_ratio: settled(at(&columns.llc_hit_ratio, id.index()), settling),
            memory_bandwidth: settled(at(&columns.memory_bandwidth, id.index()), settling).map(|rate| rate.0),
            cpus,
            active: cpus.zip(waiting).map(|(running, waiting)| running + waiting),
            instructions: settled(at(&columns.instruction_rate, id.index()), settling),
            threads: at(&columns.thread_count, id.index()).usable(),
        }
    }
}

fn settled<T: Copy>(sample: Sample<T>, settling: &Settling) -> Option<T> {
    sample.usable().filter(|_| settling.is_over_for(sample.at, sample.window))
}

/// The mean of several usages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    llc_hit_ratio: (f64, u32),
    memory_bandwidth: (f64, u32),
    cpus: (f64, u32),
    #[serde(default)]
    instructions: (f64, u32),
    #[serde(default)]
    active: (f64, u32),
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
        take(&mut self.instructions, usage.instructions);
        take(&mut self.active, usage.active);
        self.threads = usage.threads.or(self.threads);
    }

    /// The mean; None if no resource was measured.
    pub fn usage(&self) -> Option<Usage> {
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        let usage = Usage {
            llc_hit_ratio: mean(self.llc_hit_ratio),
            memory_bandwidth: mean(self.memory_bandwidth),
            cpus: mean(self.cpus),
            instructions: mean(self.instructions),
            active: mean(self.active),
            threads: self.threads,
        };
        Some(usage).filter(Usage::has_anything)
    }
}

/// The looks of a solo run. The first one is of a cache that others have filled: it counts only where there is no other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    first: Option<Usage>,
    mean: Mean,
    looks: Looks,
}

impl Alone {
    /// Takes one in.
    pub fn add(&mut self, usage: &Usage) {
        match self.first {
            None => self.first = Some(*usage).filter(Usage::has_anything),
            Some(_) => self.add_warm(usage),
        }
    }

    /// Takes one in that is not the first.
    pub fn add_warm(&mut self, usage: &Usage) {
        self.mean.add(usage);
        self.looks.add(usage);
    }

    /// The solo-run data; None if nothing was measured.
    #[must_use]
    pub fn solo(&self, at: Nanos) -> Option<Solo> {
        let usage = self.mean.usage().or(self.first)?;
        Some(Solo { usage, spread: self.looks.spread(), at })
    }
}

/// Solo-run data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Solo {
    /// The workload's usage alone.
    pub usage: Usage,
    /// The spread of its looks.
    #[serde(default)]
    pub spread: Spread,
    /// Time of the measurement.
    pub at: Nanos,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn usage(llc_hit_ratio: f64, memory_bandwidth: f64, cpus: f64) -> Usage {
        let (llc_hit_ratio, memory_bandwidth) = (Some(llc_hit_ratio), Some(memory_bandwidth));
        Usage { llc_hit_ratio, memory_bandwidth, cpus: Some(cpus), threads: Some(1), ..Usage::default() }
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
