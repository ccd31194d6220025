//! The time-slice allocator (TSA, §4.2 L195).
//!
//! A thread's slice is the period × its workload's CPUs × its weight / the workload's weights: with 80 CPUs, 80 ms and 128
//! vCPUs of one weight that is L203's 50 ms. A thread that used its slice up gets a weight that is 10 % larger; the others of
//! its workload pay for it by weight, so that the total stays.

use quell_model::{CpuCount, Nanos, View};
use serde::{Deserialize, Serialize};

use super::config::DasecConfig;
use super::tm::{START_WEIGHT, Task};

/// Largest weight that hosts take.
const MOST_WEIGHT: f64 = 10_000.0;

/// Sums over a workload's threads, by slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sums {
    threads: u32,
    weight: f64,
    /// What those want more that used their slices up.
    wanted: f64,
    /// What the others can give.
    spare: f64,
    /// Its CPUs.
    cpus: f64,
}

/// The allocator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Allocator {
    sums: Vec<Sums>,
}

impl Allocator {
    /// Weights and slices of the coming period.
    pub fn allot(&mut self, view: &View, tasks: &mut [Task], config: &DasecConfig) {
        self.count(view, tasks);
        if config.tsa {
            self.shift(tasks, config);
        }
        for task in tasks.iter_mut() {
            let sums = &self.sums[task.workload.index()];
            let part = sums.cpus * task.weight / sums.weight.max(f64::MIN_POSITIVE);
            // A thread runs on one CPU at a time.
            task.slice = Nanos((config.period.0 as f64 * part.min(1.0)) as u64);
        }
    }

    /// Sums, with total weights brought to where they belong: threads come and go.
    fn count(&mut self, view: &View, tasks: &mut [Task]) {
        self.sums.clear();
        self.sums.resize(view.workloads.spec.len(), Sums::default());
        for task in tasks.iter() {
            let sums = &mut self.sums[task.workload.index()];
            sums.threads += 1;
            sums.weight += task.weight;
        }
        for task in tasks.iter_mut() {
            let sums = &self.sums[task.workload.index()];
            let total = START_WEIGHT * f64::from(sums.threads);
            if (sums.weight - total).abs() > 1e-6 * total {
                task.weight = (task.weight * total / sums.weight).clamp(1.0, MOST_WEIGHT);
            }
        }
        self.sums.iter_mut().for_each(|sums| sums.weight = 0.0);
        tasks.iter().for_each(|task| self.sums[task.workload.index()].weight += task.weight);
        // Workloads share by what they request, if all request something; else alike.
        let requests =
            |slot: usize| view.workloads.spec[slot].as_ref().map_or(CpuCount::ZERO, |spec| spec.cpus).as_f64();
        let there = |sums: &Sums| sums.threads > 0;
        let mut slots = self.sums.iter().enumerate().filter(|(_, sums)| there(sums));
        let by_request = slots.all(|(slot, _)| requests(slot) > 0.0);
        let share = |slot: usize| if by_request { requests(slot) } else { 1.0 };
        let mut total = 0.0;
        for (slot, sums) in self.sums.iter_mut().enumerate().filter(|(_, sums)| there(sums)) {
            sums.cpus = share(slot);
            total += sums.cpus;
        }
        let cpus = view.pool().len() as f64;
        self.sums.iter_mut().filter(|sums| there(sums)).for_each(|sums| sums.cpus *= cpus / total);
    }

    fn shift(&mut self, tasks: &mut [Task], config: &DasecConfig) {
        let grows = |task: &Task| (task.weight * config.weight_step).min(MOST_WEIGHT - task.weight).max(0.0);
        let gives = |task: &Task| (task.weight - config.least_weight).max(0.0);
        for task in tasks.iter() {
            let sums = &mut self.sums[task.workload.index()];
            if task.used_up(config) {
                sums.wanted += grows(task);
            } else {
                sums.spare += gives(task);
            }
        }
        for task in tasks.iter_mut() {
            let sums = &self.sums[task.workload.index()];
            let moved = sums.wanted.min(sums.spare);
            if moved <= 0.0 {
                continue;
            }
            if task.used_up(config) {
                task.weight += grows(task) * moved / sums.wanted;
            } else {
                let least = config.least_weight.min(task.weight);
                task.weight = (task.weight - gives(task) * moved / sums.spare).max(least);
            }
        }
    }
}
