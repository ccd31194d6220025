//! The resource conflict resolver (RCR, §4.2 L203–207): threads change cores.
//!
//! Slices: if the core with the most of them has 10 % more than that with the least, the pair of threads whose change
//! brings the two nearest is swapped (ours: the text says "some"). A core without threads gets one for nothing.
//! Conflicts: preemptions and late starts of threads with low latencies. If the core with the most has more than twice those
//! of the core with the fewest, half of its low-latency threads change with half of the other's high-latency ones. Where
//! services hold CPUs as one, caches are in the place of cores (`together`).

use quell_model::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};

use super::config::{Bound, DasecConfig};
use super::tm::Task;
use super::together::Places;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Core {
    slices: u64,
    conflicts: u64,
}

/// The resolver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Resolver {
    /// By CPU.
    cores: Vec<Core>,
    /// Of two cores: threads to be swapped.
    low: Vec<usize>,
    high: Vec<usize>,
    /// Swaps so far.
    pub swaps: u64,
}

/// Is the thread's latency low (ours: below where it began)?
fn is_low(task: &Task, config: &DasecConfig) -> bool {
    task.latency < config.start_latency
}

impl Resolver {
    /// Frees those that were bound for a period, and swaps.
    pub fn resolve(&mut self, places: &Places, tasks: &mut [Task], config: &DasecConfig) {
        if config.bound == Bound::UntilNext || !config.rcr {
            tasks.iter_mut().for_each(|task| {
                task.cpu = task.bound.take().unwrap_or(task.cpu);
            });
        }
        if !config.rcr || places.all.len() < 2 || tasks.len() < 2 {
            return;
        }
        self.count(places, tasks, config);
        self.balance_slices(places, tasks, config);
        self.balance_conflicts(places, tasks, config);
    }

    fn count(&mut self, places: &Places, tasks: &[Task], config: &DasecConfig) {
        self.cores.clear();
        self.cores.resize(places.all.iter().map(|cpu| cpu.index() + 1).max().unwrap_or(0), Core::default());
        for task in tasks {
            if let Some(core) = self.cores.get_mut(places.of(task.core()).index()) {
                core.slices += task.slice.0;
                core.conflicts += if is_low(task, config) { task.conflicts } else { 0 };
            }
        }
    }

    fn ends(&self, pool: &CpuSet, of: impl Fn(&Core) -> u64) -> Option<(CpuId, CpuId)> {
        // Of equals the first.
        let most = pool.iter().max_by_key(|cpu| (of(&self.cores[cpu.index()]), std::cmp::Reverse(*cpu)))?;
        let least = pool.iter().min_by_key(|cpu| (of(&self.cores[cpu.index()]), *cpu))?;
        (most != least).then_some((most, least))
    }

    fn balance_slices(&mut self, places: &Places, tasks: &mut [Task], config: &DasecConfig) {
        let Some((most, least)) = self.ends(&places.all, |core| core.slices) else { return };
        let (above, below) = (self.cores[most.index()].slices, self.cores[least.index()].slices);
        if above as f64 <= below as f64 * (1.0 + config.slice_gap) {
            return;
        }
        let gap = (above - below) as i64;
        // Moving a difference of half the gap makes both alike.
        let mut best: Option<(i64, usize, Option<usize>)> = None;
        let mut consider = |moved: i64, from: usize, back: Option<usize>| {
            let left = (gap - 2 * moved).abs();
            if moved > 0 && left < gap && best.is_none_or(|(least, ..)| left < least) {
                best = Some((left, from, back));
            }
        };
        let is_empty = !tasks.iter().any(|task| places.of(task.core()) == least);
        for (from, task) in tasks.iter().enumerate().filter(|(_, task)| places.of(task.core()) == most) {
            if is_empty {
                consider(task.slice.0 as i64, from, None);
            }
            for (back, other) in tasks.iter().enumerate().filter(|(_, other)| places.of(other.core()) == least) {
                consider(task.slice.0 as i64 - other.slice.0 as i64, from, Some(back));
            }
        }
        if let Some((_, from, back)) = best {
            self.bind(&mut tasks[from], least);
            back.into_iter().for_each(|back| self.bind(&mut tasks[back], most));
        }
    }

    fn balance_conflicts(&mut self, places: &Places, tasks: &mut [Task], config: &DasecConfig) {
        let Some((most, fewest)) = self.ends(&places.all, |core| core.conflicts) else { return };
        let few = self.cores[fewest.index()].conflicts.max(config.fewest_conflicts.into());
        if self.cores[most.index()].conflicts as f64 <= config.conflict_gap * few as f64 {
            return;
        }
        self.low.clear();
        self.high.clear();
        for (at, task) in tasks.iter().enumerate() {
            match is_low(task, config) {
                true if places.of(task.core()) == most => self.low.push(at),
                false if places.of(task.core()) == fewest => self.high.push(at),
                _ => {}
            }
        }
        // Half of each, rounded up; in the order of their numbers.
        for place in 0..self.low.len().div_ceil(2) {
            self.bind(&mut tasks[self.low[place]], fewest);
        }
        for place in 0..self.high.len().div_ceil(2) {
            self.bind(&mut tasks[self.high[place]], most);
        }
    }

    fn bind(&mut self, task: &mut Task, cpu: CpuId) {
        task.bound = Some(cpu);
        self.swaps += 1;
    }
}
