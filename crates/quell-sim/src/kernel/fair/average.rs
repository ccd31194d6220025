//! Decaying averages of groups' loads (the kernel's per-entity load tracking, as far as groups' weights follow it).
//!
//! A group's part on a CPU is weighed by what it had there lately: the past counts half after 32 periods of 1.049 ms
//! (2²⁰ ns). As in the kernel, a queue's average is added to its group's sum when it changed by more than a 64th, and at
//! most once in a millisecond, and averages of queues that became empty are looked at now and then.

use crate::kernel::{Kernel, Loads};

/// The group's sum is brought up to date no sooner, ns.
const CONTRIBUTES_EVERY: u64 = 1_000_000;
/// Averages of empty queues on idle CPUs are looked at this often, ns (`LOAD_AVG_PERIOD`).
const BLOCKED_EVERY: u64 = 32_000_000;

impl Kernel {
    /// To be called before a queue's load changes.
    pub(crate) fn follow_load(&mut self, queue: usize) {
        if self.config.loads == Loads::Decaying {
            let now = self.now;
            let seen = &mut self.tree.queues[queue];
            seen.average.follow(seen.load, now);
        }
    }

    /// The load that a group's part on one CPU is weighed by, and the sum over all CPUs.
    pub(crate) fn loads(&mut self, queue: usize) -> (u64, u64) {
        let group = self.tree.queues[queue].group.0 as usize;
        if self.config.loads == Loads::Present {
            return (self.tree.queues[queue].load, self.tree.groups[group].load);
        }
        self.contribute(queue);
        let seen = &self.tree.queues[queue];
        let load = seen.load.max(seen.average.load as u64);
        (load, self.tree.groups[group].average - seen.average.contribution + load)
    }

    fn contribute(&mut self, queue: usize) {
        self.follow_load(queue);
        let now = self.now;
        let seen = &mut self.tree.queues[queue];
        let (average, group) = (&mut seen.average, seen.group.0 as usize);
        let load = average.load as u64;
        let is_new = now >= average.contributed_at + CONTRIBUTES_EVERY;
        if is_new && load.abs_diff(average.contribution) > average.contribution / 64 {
            let sum = &mut self.tree.groups[group].average;
            *sum = *sum - average.contribution + load;
            (average.contribution, average.contributed_at) = (load, now);
        }
    }

    /// A tick: averages of queues where nothing runs fade, here at once, on idle CPUs now and then.
    pub(crate) fn fade_loads(&mut self, cpu: usize) {
        if self.config.loads == Loads::Present {
            return;
        }
        self.fade_on(cpu);
        if self.now >= self.fair.fades_at {
            self.fair.fades_at = self.now + BLOCKED_EVERY;
            let idle = self.masks.idle;
            idle.iter().for_each(|cpu| self.fade_on(cpu.index()));
        }
    }

    fn fade_on(&mut self, cpu: usize) {
        for group in 1..self.tree.groups.len() {
            let queue = self.tree.groups[group].queues + cpu;
            let seen = &self.tree.queues[queue];
            if seen.members.is_empty() && seen.average.contribution > 0 {
                self.contribute(queue);
            }
        }
    }
}
