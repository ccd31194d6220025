//! The resource conflict resolver (RCR, §4.2 L203–207): threads change cores.
//!
//! Slices: if the core with the most of them has 10 % more than that with the least, the pair of threads whose change
//! brings the two nearest is swapped (ours: the text says "some"). Cores without threads have nothing to swap.
//! Conflicts: preemptions and late starts of threads with low latencies. If the core with the most has more than twice those
//! of the core with the fewest, half of its low-latency threads change with half of the other's high-latency ones, one with
//! one: nothing moves without something that moves back. Where services hold CPUs as one, caches are in the place of cores
//! (`together`).

use quell_model::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};

use super::config::{Bound, DasecConfig};
use super::tm::Task;
use super::together::Places;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Core {
    slices: u64,
    conflicts: u64,
    /// Its threads, and those of them with high latencies.
    threads: u32,
    high: u32,
}

/// The resolver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Resolver {
    /// By CPU.
    cores: Vec<Core>,
    /// By workload.
    latencies: Vec<Latencies>,
    /// Of two cores: threads to be swapped.
    low: Vec<usize>,
    high: Vec<usize>,
    /// Swaps so far.
    pub swaps: u64,
}

/// Sum and number of the latencies of a workload's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Latencies {
    sum: u64,
    threads: u64,
}

/// Ends all bindings.
pub(super) fn free(tasks: &mut [Task]) {
    for task in tasks {
        task.cpu = task.bound.take().unwrap_or(task.cpu);
    }
}

impl Resolver {
    /// Ends bindings, but those for ever, and swaps.
    pub fn resolve(&mut self, places: &Places, tasks: &mut [Task], config: &DasecConfig) {
        if config.bound != Bound::ForEver || !config.rcr {
            free(tasks);
        }
        if !config.rcr || places.all.len() < 2 || tasks.len() < 2 {
            return;
        }
        self.sum_latencies(tasks);
        self.count(places, tasks);
        self.balance_slices(places, tasks, config);
        self.balance_conflicts(places, tasks, config);
    }

    fn sum_latencies(&mut self, tasks: &[Task]) {
        self.latencies.clear();
        let workloads = tasks.iter().map(|task| task.workload.index() + 1).max().unwrap_or(0);
        self.latencies.resize(workloads, Latencies::default());
        for task in tasks {
            let of = &mut self.latencies[task.workload.index()];
            of.sum += task.latency.0;
            of.threads += 1;
        }
    }

    /// Is the thread's latency low: below the mean of its service's threads (ours)? That of a service's only thread is not.
    fn is_low(&self, task: &Task) -> bool {
        let of = self.latencies[task.workload.index()];
        task.latency.0 * of.threads < of.sum
    }

    fn count(&mut self, places: &Places, tasks: &[Task]) {
        self.cores.clear();
        self.cores.resize(places.all.iter().map(|cpu| cpu.index() + 1).max().unwrap_or(0), Core::default());
        for task in tasks {
            let is_low = self.is_low(task);
            if let Some(core) = self.cores.get_mut(places.of(task.core()).index()) {
                core.slices += task.slice.0;
                core.conflicts += if is_low { task.conflicts } else { 0 };
                core.threads += 1;
                core.high += u32::from(!is_low);
            }
        }
    }

    /// The core with most and that with least, the latter of those that can give something back.
    fn ends(&self, pool: &CpuSet, of: impl Fn(&Core) -> u64, gives: impl Fn(&Core) -> bool) -> Option<(CpuId, CpuId)> {
        let core = |cpu: &CpuId| &self.cores[cpu.index()];
        // Of equals the first.
        let most = pool.iter().max_by_key(|cpu| (of(core(cpu)), std::cmp::Reverse(*cpu)))?;
        let least = pool.iter().filter(|cpu| gives(core(cpu))).min_by_key(|cpu| (of(core(cpu)), *cpu))?;
        (most != least).then_some((most, least))
    }

    fn balance_slices(&mut self, places: &Places, tasks: &mut [Task], config: &DasecConfig) {
        let Some((most, least)) = self.ends(&places.all, |core| core.slices, |core| core.threads > 0) else { return };
        let (above, below) = (self.cores[most.index()].slices, self.cores[least.index()].slices);
        if above as f64 <= below as f64 * (1.0 + config.slice_gap) {
            return;
        }
        let gap = (above - below) as i64;
        // Moving a difference of half the gap makes both alike.
        let mut best: Option<(i64, usize, usize)> = None;
        for (from, task) in tasks.iter().enumerate().filter(|(_, task)| places.of(task.core()) == most) {
            for (back, other) in tasks.iter().enumerate().filter(|(_, other)| places.of(other.core()) == least) {
                let left = (gap - 2 * (task.slice.0 as i64 - other.slice.0 as i64)).abs();
                if left < best.map_or(gap, |(least, ..)| least) {
                    best = Some((left, from, back));
                }
            }
        }
        if let Some((_, from, back)) = best {
            self.swap(tasks, (from, least), (back, most));
        }
    }

    fn balance_conflicts(&mut self, places: &Places, tasks: &mut [Task], config: &DasecConfig) {
        let Some((most, fewest)) = self.ends(&places.all, |core| core.conflicts, |core| core.high > 0) else { return };
        let few = self.cores[fewest.index()].conflicts.max(config.fewest_conflicts.into());
        if self.cores[most.index()].conflicts as f64 <= config.conflict_gap * few as f64 {
            return;
        }
        self.low.clear();
        self.high.clear();
        // As many as there can be: later steps allocate nothing.
        self.low.reserve(tasks.len());
        self.high.reserve(tasks.len());
        for (at, task) in tasks.iter().enumerate() {
            match self.is_low(task) {
                true if places.of(task.core()) == most => self.low.push(at),
                false if places.of(task.core()) == fewest => self.high.push(at),
                _ => {}
            }
        }
        // Half of each, rounded up; in the order of their numbers.
        let pairs = self.low.len().div_ceil(2).min(self.high.len().div_ceil(2));
        for pair in 0..pairs {
            self.swap(tasks, (self.low[pair], fewest), (self.high[pair], most));
        }
    }

    fn swap(&mut self, tasks: &mut [Task], one: (usize, CpuId), other: (usize, CpuId)) {
        for (task, cpu) in [one, other] {
            tasks[task].bound = Some(cpu);
        }
        self.swaps += 1;
    }
}
