//! SCHED_FIFO and SCHED_RR, and the order of the classes.

use std::cmp::Reverse;

use quell_model::{CpuId, CpuSet, SchedClass};

use super::Kernel;
use super::fair::Departure;
use super::state::TaskId;

/// Lower comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Deadline(u64),
    RealTime(Reverse<u8>),
    Served(Reverse<u32>),
    Fair,
}

impl Kernel {
    fn rank(&self, task: TaskId) -> Rank {
        let seen = self.task(task);
        match seen.class {
            SchedClass::Deadline { .. } => Rank::Deadline(seen.budget.deadline),
            SchedClass::Fifo { priority } | SchedClass::RoundRobin { priority } => Rank::RealTime(Reverse(priority)),
            _ => seen.served.map_or(Rank::Fair, |priority| Rank::Served(Reverse(priority))),
        }
    }

    /// Does one thread's class, priority or deadline come before another's?
    pub(crate) fn outranks(&self, task: TaskId, other: TaskId) -> bool {
        self.rank(task) < self.rank(other)
    }

    /// Joins behind those of its priority.
    pub(crate) fn join_real_time(&mut self, task: TaskId, cpu: usize) {
        let rank = self.rank(task);
        let place = self.cpus[cpu].real_time.partition_point(|&other| self.rank(other) <= rank);
        self.cpus[cpu].real_time.insert(place, task);
    }

    /// A round-robin thread's quantum is over: it goes behind those of its priority.
    pub(crate) fn rotate(&mut self, task: TaskId, cpu: usize) {
        self.tasks[task.0 as usize].turn_began = self.now;
        self.cpus[cpu].real_time.retain(|&other| other != task);
        self.join_real_time(task, cpu);
        self.reschedule(cpu);
    }

    /// The first real-time thread of this CPU; if there is none, or one that waits elsewhere comes before it, that one
    /// is pulled.
    pub(crate) fn pick_real_time(&mut self, cpu: usize) -> Option<TaskId> {
        if self.cpus[cpu].real_time_throttled {
            return None;
        }
        self.pull(cpu, |cpu| &cpu.real_time);
        self.cpus[cpu].real_time.first().copied()
    }

    /// Brings the first waiting thread of a class here that comes before all of the class here.
    pub(crate) fn pull(&mut self, cpu: usize, list: impl Fn(&super::state::Cpu) -> &Vec<TaskId>) {
        let here = CpuId(cpu as u32);
        let mut urgent = self.masks.urgent;
        urgent.remove(here);
        if urgent.is_empty() || !self.masks.online.contains(here) {
            return;
        }
        let mut best: Option<TaskId> = list(&self.cpus[cpu]).first().copied();
        let mut from = None;
        for other in urgent.iter() {
            let seen = &self.cpus[other.index()];
            // One who is about to be picked on its own CPU stays there.
            let waiting = list(seen).iter().copied().filter(|&task| {
                seen.current != Some(task)
                    && self.may_run(task, cpu)
                    && !(seen.pending && !seen.away && list(seen)[0] == task)
            });
            if let Some(task) = waiting.min_by_key(|&task| self.rank(task))
                && best.is_none_or(|best| self.outranks(task, best))
            {
                (best, from) = (Some(task), Some(other.index()));
            }
        }
        if let (Some(task), Some(from)) = (best, from) {
            self.take_off(task, Departure::Moved);
            self.put_on(task, cpu, super::fair::Arrival::Moved);
            self.refresh_masks(from);
            self.reports.counters.balanced += 1;
        }
    }

    /// Where a woken real-time or deadline thread goes: where it was, if it runs there at once; else where the least
    /// important runs.
    pub(crate) fn choose_cpu_real_time(&self, task: TaskId) -> usize {
        let allowed = self.task(task).allowed;
        let before = self.task(task).cpu;
        let runs_at = |cpu: usize| self.cpus[cpu].current.is_none_or(|running| self.outranks(task, running));
        if before < self.cpus.len() && self.may_run(task, before) && runs_at(before) {
            return before;
        }
        if let Some(cpu) = first_from(&allowed.intersection(&self.masks.idle), before) {
            return cpu;
        }
        let least = allowed.iter().max_by_key(|cpu| {
            let running = self.cpus[cpu.index()].current;
            (running.map(|running| self.rank(running)), Reverse(cpu.0))
        });
        match least.map(CpuId::index) {
            Some(cpu) if runs_at(cpu) => cpu,
            _ if before < self.cpus.len() && self.may_run(task, before) => before,
            other => other.unwrap_or(0),
        }
    }
}

/// The first CPU of a set from this number on, beginning again at the start.
pub(crate) fn first_from(set: &CpuSet, from: usize) -> Option<usize> {
    let mut first = None;
    for cpu in set.iter() {
        if cpu.index() >= from {
            return Some(cpu.index());
        }
        first = first.or(Some(cpu.index()));
    }
    first
}
