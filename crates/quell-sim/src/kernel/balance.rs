//! Load balancing over topology domains: before a CPU goes idle, for idle CPUs, and now and then on busy ones.
//!
//! After Linux's `sched_balance_rq`: within each domain (siblings, cache, machine) the CPU's own part is compared with
//! the busiest other part, and waiting threads are pulled from the busiest queue there. Loads are present weights and
//! numbers of threads; the kernel's decaying averages are not modelled.

use quell_model::{CpuId, CpuSet};

use super::class::Class;
use super::fair::{Arrival, Departure};
use super::state::{Content, TaskId};
use super::{IdleSearch, Kernel};
use crate::imbalance::{Part, Reason, imbalance, is_busier};
use crate::mechanisms::Mechanism;

/// Looks by a busy CPU are this much rarer (`busy_factor`).
const BUSY_FACTOR: u64 = 16;
/// After this many looks in vain, threads are moved although their caches are warm …
const WARM_AFTER: u32 = 1;
/// … and running ones too (`cache_nice_tries` + 2).
const RUNNING_AFTER: u32 = 3;
/// A look by a CPU that goes idle is taken to last this long for each CPU of the domain, ns (our assumption).
const LOOK_NS: u64 = 100;
/// Where nothing that waits may run (because of CPU sets), a CPU that idles does not look again for this long, ns. Our
/// choice; the kernel too looks more rarely after looks in vain.
const NOTHING_FOR_NS: u64 = 500_000;
/// At most this many threads are moved at once (`sched_nr_migrate`).
const BATCH: usize = 32;

impl Kernel {
    /// A CPU is about to go idle: it pulls waiting work unless its idle times are too short to be worth a look.
    pub(crate) fn balance_before_idling(&mut self, cpu: usize) -> bool {
        if !self.balances() || self.masks.crowded.is_empty() || !self.masks.online.contains(CpuId(cpu as u32)) {
            return false;
        }
        if self.now < self.cpus[cpu].nothing_to_pull_until {
            return false;
        }
        let least = if self.config.idle_search == IdleSearch::Whole { 0 } else { self.config.migration_cost.0 };
        if self.cpus[cpu].mean_idle < least {
            return false;
        }
        let mut spent = 0;
        for at in 0..self.domains.by_cpu[cpu].len() {
            let domain = self.domains.by_cpu[cpu][at];
            spent += self.domains.all[domain].span.len() as u64 * LOOK_NS;
            if self.cpus[cpu].mean_idle < spent {
                return false;
            }
            if self.has(Mechanism::RandomNewidleBalance) {
                if self.pulls_by_chance(cpu, at, domain) {
                    return true;
                }
            } else if !self.domains.all[domain].span.is_disjoint(&self.masks.crowded)
                && self.balance(cpu, at, domain, Reason::NewlyIdle) > 0
            {
                return true;
            }
        }
        if !self.masks.crowded.iter().any(|other| self.has_something_for(other.index(), cpu)) {
            self.cpus[cpu].nothing_to_pull_until = self.now + NOTHING_FOR_NS;
        }
        false
    }

    /// A look is taken as often as looks were of use lately; each that is taken stands for those that were not
    /// (`sched_balance_newidle` with NI_RANDOM).
    fn pulls_by_chance(&mut self, cpu: usize, at: usize, domain: usize) -> bool {
        if self.fair.chance.dice.below(1024) > self.cpus[cpu].looks[at].weight() {
            self.cpus[cpu].looks[at].count(false);
            return false;
        }
        let pulled = self.balance(cpu, at, domain, Reason::NewlyIdle) > 0;
        self.cpus[cpu].looks[at].count(pulled);
        pulled
    }

    fn has_something_for(&self, source: usize, cpu: usize) -> bool {
        let mut waiting = Vec::new();
        self.waiting_on(source, source, 1.0, &mut waiting);
        waiting.iter().any(|&(task, _)| self.may_run(task, cpu))
    }

    /// A busy CPU's tick: its own domains, if that is due, and those of idle CPUs, who have no ticks.
    pub(crate) fn balance_at_tick(&mut self, cpu: usize) {
        if !self.balances() {
            return;
        }
        self.balance_domains(cpu, Reason::Busy);
        let wanted =
            !self.masks.crowded.is_empty() || (self.topology.has_siblings() && !self.masks.idle_cores.is_empty());
        if wanted && self.now >= self.domains.idle_at && !self.masks.idle.is_empty() {
            self.domains.idle_at = self.now + self.config.tick.0;
            let idle = self.masks.idle.intersection(&self.masks.online);
            for other in idle.iter() {
                if self.masks.idle.contains(other) {
                    self.balance_domains(other.index(), Reason::Idle);
                }
            }
        }
    }

    fn balances(&self) -> bool {
        self.config.balance && self.ordinary() == Class::Fair && self.cpus.len() > 1
    }

    fn balance_domains(&mut self, cpu: usize, reason: Reason) {
        for at in 0..self.domains.by_cpu[cpu].len() {
            if self.cpus[cpu].balance[at].0 > self.now {
                continue;
            }
            let domain = self.domains.by_cpu[cpu][at];
            let factor = if reason == Reason::Busy { BUSY_FACTOR } else { 1 };
            self.cpus[cpu].balance[at].0 = self.now + self.domains.all[domain].interval * factor;
            if self.speaks_for_part(cpu, domain) {
                self.balance(cpu, at, domain, reason);
            }
        }
    }

    /// The kernel's `should_we_balance`: one CPU of a part looks for it: the first idle one, else the first.
    fn speaks_for_part(&self, cpu: usize, domain: usize) -> bool {
        let id = CpuId(cpu as u32);
        let Some(part) = self.domains.all[domain].parts.iter().find(|part| part.contains(id)) else { return false };
        let idle = part.intersection(&self.masks.idle);
        idle.lowest().or(part.lowest()) == Some(id)
    }

    fn part(&self, cpus: &CpuSet) -> Part {
        let mut part = Part::default();
        for cpu in cpus.intersection(&self.masks.online).iter() {
            let runnable = self.runnable(cpu.index()) as u64;
            part.cpus += 1;
            part.idle += u64::from(runnable == 0);
            part.tasks += runnable;
            part.load += self.tree.queues[cpu.index()].load;
        }
        part
    }

    /// Pulls threads here from the busiest other part of a domain, if it has too many. Returns how many.
    fn balance(&mut self, cpu: usize, at: usize, domain: usize, reason: Reason) -> usize {
        if reason != Reason::NewlyIdle && self.has(Mechanism::SisUtil) {
            self.budget_scans(domain);
        }
        let id = CpuId(cpu as u32);
        let (mut own, mut busiest): (Part, Option<(Part, CpuSet)>) = (Part::default(), None);
        let mut total = Part::default();
        for part in &self.domains.all[domain].parts {
            let seen = self.part(part);
            total.cpus += seen.cpus;
            total.load += seen.load;
            if part.contains(id) {
                own = seen;
            } else if busiest.is_none_or(|(other, _)| is_busier(&seen, &other)) {
                busiest = Some((seen, *part));
            }
        }
        let Some((busiest, from)) = busiest else { return 0 };
        let Some((by_load, amount)) = imbalance(&own, &busiest, &total, reason) else {
            self.cpus[cpu].balance[at].1 = 0;
            return 0;
        };
        let is_core = self.domains.all[domain].is_core;
        let failed = self.cpus[cpu].balance[at].1;
        let moved = self.pull_threads(cpu, &from, (by_load, amount), reason, failed, is_core);
        if moved == 0 && reason != Reason::NewlyIdle {
            self.cpus[cpu].balance[at].1 += 1;
            if failed >= RUNNING_AFTER && self.masks.idle.contains(id) && self.push_running(cpu, &from) {
                self.cpus[cpu].balance[at].1 = 0;
                return 1;
            }
        } else if moved > 0 {
            self.cpus[cpu].balance[at].1 = 0;
        }
        moved
    }

    /// `wanted`: a load (true), or a number of threads.
    fn pull_threads(
        &mut self,
        to: usize,
        from: &CpuSet,
        wanted: (bool, u64),
        reason: Reason,
        failed: u32,
        is_core: bool,
    ) -> usize {
        let (by_load, amount) = wanted;
        let warm = is_core || failed > WARM_AFTER;
        let crowded = from.intersection(&self.masks.crowded);
        let weight = |cpu: &CpuId| {
            let queue = &self.tree.queues[cpu.index()];
            if by_load { queue.load } else { u64::from(queue.tasks) }
        };
        let source = crowded.iter().max_by_key(|cpu| (weight(cpu), std::cmp::Reverse(cpu.0))).map(CpuId::index);
        let Some(source) = source else { return 0 };
        let mut waiting = Vec::new();
        self.waiting_on(source, source, 1.0, &mut waiting);
        let (mut left, mut moved) = (amount, 0);
        for (task, load) in waiting {
            // By number no thread is moved only to make the other CPU the crowded one.
            let few = self.runnable(source) <= if by_load { 1 } else { self.runnable(to) + 1 };
            if left == 0 || moved >= BATCH || few || (moved == 1 && reason == Reason::NewlyIdle) {
                break;
            }
            let is_warm = self.now - self.task(task).ran_at < self.config.migration_cost.0;
            if !self.may_run(task, to) || (is_warm && !warm) || (by_load && (load >> failed.min(16)) > left) {
                continue;
            }
            left = left.saturating_sub(if by_load { load } else { 1 });
            self.move_thread(task, source, to);
            moved += 1;
        }
        moved
    }

    /// A running thread moves: for one that shares its core with another while a whole core is idle.
    fn push_running(&mut self, to: usize, from: &CpuSet) -> bool {
        let may_move = |task: &TaskId| self.is_fair(*task) && self.may_run(*task, to);
        let there = from.iter().map(|cpu| &self.cpus[cpu.index()]).filter(|cpu| !cpu.away);
        let running = there.filter_map(|cpu| cpu.current).find(may_move);
        let Some(task) = running else { return false };
        let source = self.task(task).cpu;
        self.account(source);
        self.interrupt(task);
        self.move_thread(task, source, to);
        true
    }

    fn move_thread(&mut self, task: TaskId, from: usize, to: usize) {
        self.account(from);
        self.account(to);
        self.take_off(task, Departure::Moved);
        self.put_on(task, to, Arrival::Moved);
        self.reports.counters.balanced += 1;
    }

    /// The threads that wait on a CPU, each with the part of the CPU's load that it is.
    fn waiting_on(&self, cpu: usize, queue: usize, part: f64, found: &mut Vec<(TaskId, u64)>) {
        for &member in &self.tree.queues[queue].members {
            let entity = &self.tree.entities[member];
            let load = entity.weight as f64 * part;
            match entity.content {
                Content::Task(task) if !entity.delayed && self.cpus[cpu].current != Some(task) => {
                    found.push((task, load as u64));
                }
                Content::Task(_) => {}
                Content::Queue(below) => {
                    let below_load = self.tree.queues[below].load.max(1) as f64;
                    self.waiting_on(cpu, below, load / below_load, found);
                }
            }
        }
    }
}
