//! The cgroup tree, and what is set on groups and threads.

use quell_model::{CpuId, CpuSet, SchedClass};

use super::fair::{Arrival, Departure};
use super::state::{Content, Entity, Group, GroupId, Queue, State, TaskId};
use super::{Kernel, Partition};
use crate::weight;

impl Kernel {
    /// A new group under another, with a `cpu.weight` (1–10000).
    pub fn add_group(&mut self, parent: GroupId, cpu_weight: u32) -> GroupId {
        let id = GroupId(self.tree.groups.len() as u32);
        let count = self.cpus.len();
        let above = &self.tree.groups[parent.0 as usize];
        let (first_above, depth) = (above.queues, above.depth);
        let queues = self.tree.queues.len();
        for cpu in 0..count {
            let entity = self.tree.entities.len();
            self.tree.entities.push(Entity::new(Content::Queue(queues + cpu), first_above + cpu, depth));
            self.tree.queues.push(Queue::new(cpu, id, Some(entity)));
        }
        self.tree.groups.push(Group {
            parent: Some(parent),
            depth: depth + 1,
            shares: weight::of_group(cpu_weight),
            idle: false,
            cpus: None,
            partition: Partition::Member,
            queues,
            load: 0,
            average: 0,
            bandwidth: None,
        });
        id
    }

    /// Sets a group's `cpu.weight`.
    pub fn set_weight(&mut self, group: GroupId, cpu_weight: u32) {
        self.tree.groups[group.0 as usize].shares = weight::of_group(cpu_weight);
        let queues = self.tree.groups[group.0 as usize].queues;
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
            self.update_weight(queues + cpu);
        }
    }

    /// Sets a group's `cpu.idle`.
    pub fn set_idle(&mut self, group: GroupId, idle: bool) {
        if self.tree.groups[group.0 as usize].idle != idle {
            self.rebuild(group, |kernel| kernel.tree.groups[group.0 as usize].idle = idle);
        }
    }

    /// Sets the CPUs that a group's threads may use (`cpuset.cpus`); None: those of its parent.
    pub fn set_cpus(&mut self, group: GroupId, cpus: Option<CpuSet>) {
        if std::mem::replace(&mut self.tree.groups[group.0 as usize].cpus, cpus) == cpus {
            return;
        }
        if self.tree.groups[group.0 as usize].partition != Partition::Member {
            return self.rebuild_partitions();
        }
        for task in 0..self.tasks.len() as u32 {
            if self.is_below(self.tasks[task as usize].group, group) {
                self.refresh_allowed(TaskId(task));
            }
        }
    }

    /// Sets a thread's own affinity; None: all its group may use.
    pub fn set_affinity(&mut self, task: TaskId, cpus: Option<CpuSet>) {
        self.tasks[task.0 as usize].affinity = cpus;
        self.refresh_allowed(task);
    }

    /// Sets a thread's scheduling class.
    pub fn set_class(&mut self, task: TaskId, class: SchedClass) {
        self.while_away(task, |kernel| {
            let index = task.0 as usize;
            kernel.tasks[index].class = class;
            let entity = kernel.tasks[index].entity;
            kernel.reweigh(entity, kernel.task(task).weight());
            kernel.tree.entities[entity].idle = matches!(class, SchedClass::Idle);
            kernel.set_slice(task);
            if let SchedClass::Deadline { .. } = class {
                kernel.prepare_budget(task);
            }
        });
    }

    /// Stops a thread, or lets it run on (the freezer).
    pub fn set_stopped(&mut self, task: TaskId, stopped: bool) {
        if self.tasks[task.0 as usize].stopped == stopped {
            return;
        }
        self.while_away(task, |kernel| kernel.tasks[task.0 as usize].stopped = stopped);
    }

    /// Takes a CPU offline or brings it back. Where CPUs belong to workloads, one that is offline belongs to none.
    pub fn set_online(&mut self, cpu: CpuId, online: bool) {
        if online {
            self.masks.online.insert(cpu);
        } else {
            self.masks.online.remove(cpu);
            self.hand(cpu, None);
        }
        for task in 0..self.tasks.len() as u32 {
            self.refresh_allowed(TaskId(task));
        }
    }

    fn is_below(&self, mut group: GroupId, above: GroupId) -> bool {
        while group != above {
            match self.tree.groups[group.0 as usize].parent {
                Some(parent) => group = parent,
                None => return false,
            }
        }
        true
    }

    /// Works out where a thread may run; it moves if it is elsewhere. An empty set counts as no restriction, as the
    /// kernel falls back rather than leave a thread without a CPU.
    pub(crate) fn refresh_allowed(&mut self, task: TaskId) {
        let seen = &self.tasks[task.0 as usize];
        let mut path = Vec::new();
        let mut at = Some(seen.group);
        while let Some(group) = at {
            path.push(group);
            at = self.tree.groups[group.0 as usize].parent;
        }
        let mut allowed = self.masks.online.difference(&self.taken_from(&path));
        if allowed.is_empty() {
            allowed = self.masks.online;
        }
        let mut narrow = |cpus: Option<CpuSet>| {
            let both = cpus.map_or(allowed, |cpus| cpus.intersection(&allowed));
            if !both.is_empty() {
                allowed = both;
            }
        };
        path.iter().rev().for_each(|group| narrow(self.tree.groups[group.0 as usize].cpus));
        narrow(seen.affinity);
        let (queued, cpu) = (seen.queued, seen.cpu);
        let delayed = self.tree.entities[seen.entity].delayed;
        self.tasks[task.0 as usize].allowed = allowed;
        if (queued || delayed) && cpu < self.cpus.len() && !allowed.contains(CpuId(cpu as u32)) {
            self.while_away(task, |_| {});
        }
    }

    /// Takes a thread off its queue, changes something, and brings it back if it can run.
    pub(crate) fn while_away(&mut self, task: TaskId, change: impl FnOnce(&mut Kernel)) {
        self.put_aside(task);
        change(self);
        if self.is_to_run(task) {
            self.bring(task);
        }
    }

    fn is_to_run(&self, task: TaskId) -> bool {
        let seen = self.task(task);
        seen.state == State::Runnable && !seen.stopped
    }

    /// Takes a thread off its queue, wherever that is. Says whether it is to be brought back.
    pub(crate) fn put_aside(&mut self, task: TaskId) -> bool {
        let cpu = self.tasks[task.0 as usize].cpu;
        if cpu < self.cpus.len() {
            self.account(cpu);
            self.interrupt(task);
            let seen = &mut self.tasks[task.0 as usize];
            if seen.queued {
                seen.run_delay += self.now - seen.runnable_since;
            }
            self.take_off(task, Departure::Moved);
        } else if self.is_granted(task) {
            self.leave_granted(task);
        }
        self.tasks[task.0 as usize].runnable_since = self.now;
        self.is_to_run(task)
    }

    /// Changes something about a group while none of it is queued.
    fn rebuild(&mut self, group: GroupId, change: impl FnOnce(&mut Kernel)) {
        let below: Vec<TaskId> = (0..self.tasks.len() as u32)
            .map(TaskId)
            .filter(|&task| {
                let seen = self.task(task);
                let is_there = seen.queued || self.tree.entities[seen.entity].delayed;
                is_there && self.is_fair(task) && self.is_below(seen.group, group)
            })
            .collect();
        for &task in &below {
            self.account(self.task(task).cpu);
            self.interrupt(task);
            self.take_off(task, Departure::Moved);
        }
        change(self);
        for &task in &below {
            if self.task(task).state == State::Runnable {
                self.put_on(task, self.task(task).cpu, Arrival::Moved);
            }
        }
    }
}
