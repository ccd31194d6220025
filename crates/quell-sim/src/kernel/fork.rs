//! Threads that begin and end during a run.
//!
//! A thread that begins is one of a workload's sleeping ones, renewed: it owes and is owed nothing, was on no CPU, and is placed as a
//! new one (`wake_up_new_task`). What its lives before used is still counted as its own.

use std::cmp::Reverse;

use quell_model::{CpuId, CpuSet};

use super::fair::{Arrival, Departure};
use super::state::TaskId;
use super::{Kernel, Loads};
use crate::imbalance::{Room, emptiest};
use crate::mechanisms::Mechanism;
use crate::weight::NICE_0;

impl Kernel {
    /// A sleeping thread begins anew with this much work, ns at full speed. `parent` has just run and starts it.
    pub(crate) fn begin(&mut self, task: TaskId, work_ns: u64, parent: TaskId) {
        let from = self.last_cpu(parent);
        self.renew(task, parent);
        let Some(from) = from.filter(|_| self.is_fair(task)) else {
            return self.wake_by_from(task, work_ns, parent, from);
        };
        self.make_runnable(task, work_ns);
        if self.task(task).stopped {
            return;
        }
        let cpu = self.emptiest_cpu(task, from);
        self.account(cpu);
        self.put_on(task, cpu, Arrival::New);
        self.attach_load(task, cpu);
        self.account(cpu);
        self.preempt_if_due(task, cpu, cpu == from);
    }

    /// The running thread ends. Unlike one that falls asleep it leaves its queue at once (`TASK_DEAD` is a special state). Its load
    /// leaves the average with the next thread that comes or goes there (`remove_entity_load_avg`).
    pub(crate) fn exit(&mut self, task: TaskId) {
        self.leave_cpu(task, Departure::Ended);
        let (cpu, group) = (self.task(task).cpu, self.task(task).group);
        if !self.is_fair(task) || cpu >= self.cpus.len() || self.config.loads == Loads::Present {
            return;
        }
        let (queue, weight) = (self.queue_of(group, cpu), self.task(task).weight() as f64);
        self.follow_load(queue);
        let average = &mut self.tree.queues[queue].average;
        average.removed += weight;
        // A CPU that goes idle looks through its queues' averages.
        if self.runnable(cpu) == 0 {
            self.tree.queues[queue].average.settle();
        }
    }

    /// A new thread's load is in its queue's average from the first moment on (`init_entity_runnable_average`).
    fn attach_load(&mut self, task: TaskId, cpu: usize) {
        if self.config.loads == Loads::Decaying {
            let queue = self.queue_of(self.task(task).group, cpu);
            self.follow_load(queue);
            self.tree.queues[queue].average.load += self.task(task).weight() as f64;
            self.update_group_weights(task);
        }
    }

    fn renew(&mut self, task: TaskId, parent: TaskId) {
        let (nowhere, parent) = (usize::MAX, self.task(parent).entity);
        let (queue, vruntime) = (self.tree.entities[parent].queue, self.tree.entities[parent].vruntime);
        let seen = &mut self.tasks[task.0 as usize];
        (seen.cpu, seen.ran_on, seen.was_on) = (nowhere, nowhere, nowhere);
        (seen.ran_at, seen.is_new) = (0, true);
        let entity = &mut self.tree.entities[seen.entity];
        (entity.lag, entity.deadline_is_relative) = (0, false);
        // CFS: a child goes on from its parent's virtual run time (`task_fork_fair`).
        (entity.queue, entity.vruntime) = (queue, vruntime);
    }

    /// The CPU where a new thread begins: the emptiest part of each domain, from the largest down (`sched_balance_find_dst_cpu`).
    fn emptiest_cpu(&mut self, task: TaskId, from: usize) -> usize {
        let allowed = self.task(task).allowed;
        let mut cpu = from;
        let mut level = self.domains.of_cpu(cpu).len();
        while level > 0 {
            level -= 1;
            let domain = self.domains.of_cpu(cpu)[level];
            let Some(part) = self.emptiest_part(domain, cpu, &allowed) else { continue };
            cpu = self.emptiest_of(&part.intersection(&allowed)).unwrap_or(cpu);
            level = self.domains.of_cpu(cpu).iter().position(|&other| other == domain).unwrap_or(0);
        }
        let lowest = || allowed.lowest().map_or(cpu, CpuId::index);
        if allowed.contains(CpuId(cpu as u32)) { cpu } else { lowest() }
    }

    /// The part of a domain to begin in; None: the one that has this CPU.
    fn emptiest_part(&mut self, domain: usize, cpu: usize, allowed: &CpuSet) -> Option<CpuSet> {
        let parts = self.domains.all[domain].parts.clone();
        let own = parts.iter().position(|part| part.contains(CpuId(cpu as u32)))?;
        let others = parts[own + 1..].iter().chain(&parts[..own]);
        let others: Vec<CpuSet> = others.filter(|part| !part.is_disjoint(allowed)).copied().collect();
        let rooms: Vec<Room> = others.iter().map(|part| self.room_of(part)).collect();
        let here = (!parts[own].is_disjoint(allowed)).then(|| self.room_of(&parts[own]));
        emptiest(here.as_ref(), &rooms).map(|place| others[place])
    }

    fn room_of(&mut self, part: &CpuSet) -> Room {
        let mut room = Room::default();
        for cpu in part.iter().map(CpuId::index) {
            let tasks = self.runnable(cpu) as u64;
            room.cpus += 1;
            room.idle += u64::from(tasks == 0);
            room.tasks += tasks;
            room.used += if self.has(Mechanism::SisUtil) { self.use_of(cpu) } else { f64::from(u8::from(tasks > 0)) };
            room.load += self.load_of(cpu);
        }
        room
    }

    /// The idle CPU that idles most recently, else the least loaded one (`sched_balance_find_dst_group_cpu`).
    fn emptiest_of(&mut self, cpus: &CpuSet) -> Option<usize> {
        let idle = cpus.intersection(&self.masks.idle);
        let latest = idle.iter().map(CpuId::index).min_by_key(|&cpu| Reverse(self.cpus[cpu].idle_since));
        latest.or_else(|| {
            let loads: Vec<(f64, usize)> = cpus.iter().map(|cpu| (self.load_of(cpu.index()), cpu.index())).collect();
            loads.into_iter().min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, cpu)| cpu)
        })
    }

    /// A CPU's load lately, in weights of nice 0.
    fn load_of(&mut self, cpu: usize) -> f64 {
        self.follow_load(cpu);
        let seen = &self.tree.queues[cpu];
        let load = if self.config.loads == Loads::Decaying { seen.average.load } else { seen.load as f64 };
        load / NICE_0 as f64
    }
}
