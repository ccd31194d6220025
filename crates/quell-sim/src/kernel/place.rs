//! Wake-up placement: which CPU a thread that woke up goes to.

use std::cmp::Reverse;

use quell_model::{CpuId, CpuSet};

use super::realtime::first_from;
use super::state::TaskId;
use super::{IdleSearch, Kernel};
use crate::imbalance::scans;
use crate::mechanisms::Mechanism;

/// A look at another CPU takes this long, ns (a line of another core's cache; our assumption).
const SCAN_NS: u64 = 100;
/// A CPU that is always busy (`SCHED_CAPACITY_SCALE`).
const FULL: u64 = 1024;

impl Kernel {
    /// The CPU for a thread that becomes runnable. `waker`: the CPU whose thread woke it.
    pub(crate) fn choose_cpu(&mut self, task: TaskId, waker: Option<usize>) -> usize {
        let seen = self.task(task);
        if seen.class.is_real_time() {
            return self.choose_cpu_real_time(task);
        }
        if seen.cpu >= self.cpus.len() {
            return self.idlest(task);
        }
        let previous = seen.cpu;
        let target = match waker.filter(|&cpu| self.may_run(task, cpu)) {
            Some(waker) if !self.may_run(task, previous) => waker,
            Some(waker) if self.pulls(task, waker, previous) => waker,
            _ if !self.may_run(task, previous) => return self.idlest(task),
            _ => previous,
        };
        match self.config.idle_search {
            IdleSearch::Whole if self.has(Mechanism::SisUtil) => self.scanned_idle(task, previous, target),
            IdleSearch::Whole => self.idle_sibling(task, previous, target),
            IdleSearch::Proportional => self.near_idle(task, previous, target, waker.unwrap_or(previous)),
        }
    }

    /// Nothing runs there, or only what gives way to everybody.
    fn is_free(&self, cpu: usize) -> bool {
        let id = CpuId(cpu as u32);
        self.masks.idle.contains(id) || self.masks.idle_class.contains(id)
    }

    /// The kernel's `wake_affine`: is the waker's CPU the better one to look from?
    fn pulls(&self, task: TaskId, waker: usize, previous: usize) -> bool {
        if waker == previous || self.is_free(previous) {
            return false;
        }
        let id = CpuId(waker as u32);
        if self.masks.idle.contains(id) && self.domains.cache_of(previous).contains(id) {
            return true;
        }
        let weight = self.tree.entities[self.task(task).entity].weight;
        self.tree.queues[waker].load + weight < self.tree.queues[previous].load
    }

    /// The kernel's `select_idle_sibling`: a free CPU that shares the last-level cache with the target, a whole idle
    /// core before a sibling of a busy one; if there is none, the target.
    fn idle_sibling(&self, task: TaskId, previous: usize, target: usize) -> usize {
        if self.is_free(target) {
            return target;
        }
        let cache = self.domains.cache_of(target);
        if self.is_free(previous) && cache.contains(CpuId(previous as u32)) && self.may_run(task, previous) {
            return previous;
        }
        let allowed = self.task(task).allowed.intersection(cache);
        let any = |set: &CpuSet| first_from(&set.intersection(&allowed), target + 1);
        any(&self.masks.idle_cores)
            .or_else(|| any(&self.masks.idle))
            .or_else(|| any(&self.masks.idle_class))
            .unwrap_or(target)
    }

    /// Linux 6.18's `select_idle_sibling` where cores have no siblings: the target, where the thread ran last and before that,
    /// and then as many CPUs from the target on as the domain's balancing allows (`SIS_UTIL`).
    fn scanned_idle(&mut self, task: TaskId, previous: usize, target: usize) -> usize {
        if self.topology.has_siblings() {
            return self.idle_sibling(task, previous, target);
        }
        if self.is_free(target) {
            return target;
        }
        let cache = *self.domains.cache_of(target);
        let fits = |kernel: &Kernel, cpu: usize| {
            cache.contains(CpuId(cpu as u32)) && kernel.is_free(cpu) && kernel.may_run(task, cpu)
        };
        if fits(self, previous) {
            return previous;
        }
        // Only a thread that looks further remembers where it was.
        let before = std::mem::replace(&mut self.tasks[task.0 as usize].was_on, previous);
        if before < self.cpus.len() && fits(self, before) {
            return before;
        }
        let span = |&domain: &usize| self.domains.all[domain].span == cache;
        let domain = self.domains.of_cpu(target).iter().copied().find(span);
        let most = domain.map_or(0, |domain| self.domains.all[domain].scans);
        let order =
            cache.iter().filter(|cpu| cpu.index() > target).chain(cache.iter().filter(|cpu| cpu.index() <= target));
        let allowed = order.filter(|cpu| self.may_run(task, cpu.index()));
        allowed.take(most as usize).find(|cpu| self.is_free(cpu.index())).map_or(target, CpuId::index)
    }

    /// How many CPUs wake-ups look at in a domain that shares a cache: the fewer the busier they were lately
    /// (`update_idle_cpu_scan`).
    pub(super) fn budget_scans(&mut self, domain: usize) {
        let span = self.domains.all[domain].span;
        if span.lowest().is_none_or(|cpu| *self.domains.cache_of(cpu.index()) != span) {
            return;
        }
        let used: f64 = span.iter().map(|cpu| self.use_of(cpu.index())).sum();
        self.domains.all[domain].scans = scans(used / span.len() as f64, span.len());
    }

    /// The part of its time, 0–1, that a CPU was busy lately.
    pub(super) fn use_of(&mut self, cpu: usize) -> f64 {
        self.note_use(cpu);
        self.cpus[cpu].used.load / FULL as f64
    }

    /// To be called before a CPU goes idle or begins to work.
    pub(super) fn note_use(&mut self, cpu: usize) {
        let (now, seen) = (self.now, &mut self.cpus[cpu]);
        seen.used.follow(if seen.current.is_some() { FULL } else { 0 }, now);
    }

    /// Linux 5.3's `select_idle_sibling`: `select_idle_core` where there are siblings, then as many CPUs from the target on as
    /// the waking CPU's idle times pay for.
    fn near_idle(&mut self, task: TaskId, previous: usize, target: usize, from: usize) -> usize {
        if self.is_free(target) {
            return target;
        }
        let cache = *self.domains.cache_of(target);
        if self.is_free(previous) && cache.contains(CpuId(previous as u32)) && self.may_run(task, previous) {
            return previous;
        }
        let allowed = self.task(task).allowed.intersection(&cache);
        if self.topology.has_siblings()
            && let Some(whole) = first_from(&self.masks.idle_cores.intersection(&allowed), target + 1)
        {
            return whole;
        }
        let (idle, cost) = (self.cpus[from].mean_idle / 512, self.cpus[from].scan_cost + 1);
        let span = cache.len() as u64 * idle;
        // The kernel counts down before it looks: one CPU fewer.
        let most = if span > 4 * cost { span / cost } else { 4 }.saturating_sub(1);
        let before = cache.iter().filter(|cpu| cpu.index() < target);
        let order = cache.iter().filter(|cpu| cpu.index() >= target).chain(before);
        let (mut looked, mut found) = (0, None);
        for cpu in order {
            if looked == most {
                return target;
            }
            looked += 1;
            if allowed.contains(cpu) && self.masks.idle.contains(cpu) {
                found = Some(cpu.index());
                break;
            }
        }
        let mean = &mut self.cpus[from].scan_cost;
        *mean = *mean - *mean / 8 + looked * SCAN_NS / 8;
        found.unwrap_or(target)
    }

    /// Where a new thread goes: the least crowded CPU, on an idle core, in the cache domain with the most idle CPUs.
    fn idlest(&self, task: TaskId) -> usize {
        let key = |cpu: CpuId| {
            let free = self.domains.cache_of(cpu.index()).intersection(&self.masks.idle).len();
            (self.runnable(cpu.index()), !self.masks.idle_cores.contains(cpu), Reverse(free), cpu)
        };
        self.task(task).allowed.iter().min_by_key(|&cpu| key(cpu)).map_or(0, CpuId::index)
    }
}
