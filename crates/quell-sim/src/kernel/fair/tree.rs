//! Entities come and go through the tree of groups on one CPU; a group's weight there follows its load.

use crate::config::FairScheduler;
use crate::kernel::Kernel;
use crate::kernel::state::{Content, TaskId};
use crate::tree::{Arrival, Departure};
use crate::weight;

impl Kernel {
    /// The queue of a group on a CPU.
    pub(crate) fn queue_of(&self, group: crate::GroupId, cpu: usize) -> usize {
        self.tree.groups[group.0 as usize].queues + cpu
    }

    /// A thread joins its group's queue on its CPU, and its groups those above. The CPU's time must be accounted.
    pub(crate) fn fair_enqueue(&mut self, task: TaskId, mut arrival: Arrival) {
        let (cpu, group, mut entity) = {
            let task = &self.tasks[task.0 as usize];
            (task.cpu, task.group, task.entity)
        };
        let idle = self.tree.entities[entity].idle;
        let mut queue = self.queue_of(group, cpu);
        self.count_tasks(queue, 1, idle);
        if self.tree.entities[entity].delayed {
            self.revive(entity);
            return;
        }
        self.come_to(entity, queue);
        loop {
            if self.tree.entities[entity].queued {
                if self.tree.entities[entity].delayed {
                    self.revive(entity);
                }
                break;
            }
            self.join(entity, queue, arrival);
            arrival = Arrival::WakeUp;
            if self.tree.queues[queue].throttled || self.throttle_if_empty_handed(queue) {
                break;
            }
            let Some(above) = self.tree.queues[queue].entity else { break };
            entity = above;
            queue = self.tree.entities[entity].queue;
        }
        self.lift_slices(self.queue_of(group, cpu));
        self.update_group_weights(task);
    }

    /// A thread leaves. If it falls asleep, EEVDF lets it compete on, without running, until it is no longer ahead of the
    /// others (the kernel's delayed dequeue): sleeping is no way to get rid of a debt.
    pub(crate) fn fair_dequeue(&mut self, task: TaskId, how: Departure) {
        let (cpu, group, entity) = {
            let task = &self.tasks[task.0 as usize];
            (task.cpu, task.group, task.entity)
        };
        let idle = self.tree.entities[entity].idle;
        let queue = self.queue_of(group, cpu);
        if !self.tree.entities[entity].delayed {
            self.count_tasks(queue, -1, idle);
        }
        self.withdraw(entity, how);
        self.lift_slices(queue);
        self.update_group_weights(task);
    }

    /// Takes an entity out, and those above whose queues became empty.
    pub(crate) fn withdraw(&mut self, mut entity: usize, mut how: Departure) {
        loop {
            if self.config.fair == FairScheduler::Eevdf && how == Departure::Asleep {
                let seen = &self.tree.entities[entity];
                if !seen.delayed && !self.mean(seen.queue).is_eligible(seen.vruntime) {
                    self.tree.entities[entity].delayed = true;
                    return;
                }
            }
            let queue = self.leave(entity, how);
            if how == Departure::Ended {
                how = Departure::Asleep;
            }
            if !self.tree.queues[queue].members.is_empty() {
                return;
            }
            self.give_runtime_back(queue);
            if self.tree.queues[queue].throttled {
                return;
            }
            let Some(above) = self.tree.queues[queue].entity else { return };
            if !self.tree.entities[above].queued {
                return;
            }
            entity = above;
        }
    }

    /// One entity joins one queue.
    pub(crate) fn join(&mut self, entity: usize, queue: usize, arrival: Arrival) {
        self.tree.entities[entity].queue = queue;
        if let Content::Queue(own) = self.tree.entities[entity].content {
            self.update_weight(own);
            self.take_shortest_slice(entity, own);
        }
        self.place(entity, arrival);
        self.tree.entities[entity].queued = true;
        self.tree.queues[queue].members.push(entity);
        self.change_load(queue, self.tree.entities[entity].weight as i64);
    }

    /// One entity leaves its queue and remembers its lag.
    fn leave(&mut self, entity: usize, how: Departure) -> usize {
        let queue = self.tree.entities[entity].queue;
        let lag = self.lag(entity);
        let seen = &mut self.tree.entities[entity];
        seen.lag = lag;
        if how == Departure::Moved && self.config.fair == FairScheduler::Eevdf {
            seen.deadline -= seen.vruntime;
            seen.deadline_is_relative = true;
        }
        // A debt was waited off; a delayed entity does not earn anything by having waited.
        if std::mem::take(&mut seen.delayed) {
            seen.lag = seen.lag.min(0);
        }
        seen.queued = false;
        let weight = seen.weight as i64;
        let members = &mut self.tree.queues[queue].members;
        if let Some(place) = members.iter().position(|&member| member == entity) {
            members.remove(place);
        }
        self.change_load(queue, -weight);
        queue
    }

    /// A delayed entity is wanted again: it keeps its place, but earns nothing by having waited.
    fn revive(&mut self, entity: usize) {
        let lag = self.lag(entity);
        self.tree.entities[entity].delayed = false;
        if lag > 0 {
            let queue = self.leave(entity, Departure::Asleep);
            self.tree.entities[entity].lag = 0;
            self.join(entity, queue, Arrival::WakeUp);
        }
    }

    /// A delayed entity has waited its debt off.
    pub(crate) fn finish_delayed(&mut self, entity: usize) {
        self.withdraw(entity, Departure::Asleep);
    }

    /// Virtual run times are those of a queue; CFS and BVT carry them over when a thread changes its CPU.
    fn come_to(&mut self, entity: usize, queue: usize) {
        let from = std::mem::replace(&mut self.tree.entities[entity].queue, queue);
        if from != queue && self.config.fair != FairScheduler::Eevdf {
            self.tree.entities[entity].vruntime += self.tree.queues[queue].zero - self.tree.queues[from].zero;
        }
    }

    /// Counts runnable threads in a queue and above, as far as it is not throttled.
    pub(crate) fn count_tasks(&mut self, queue: usize, by: i32, idle: bool) {
        let mut idle = idle;
        let mut at = Some(queue);
        while let Some(queue) = at {
            let group = self.tree.queues[queue].group;
            idle |= self.tree.groups[group.0 as usize].idle;
            let queue = &mut self.tree.queues[queue];
            queue.tasks = queue.tasks.wrapping_add_signed(by);
            if idle {
                queue.idle_tasks = queue.idle_tasks.wrapping_add_signed(by);
            }
            at = if queue.throttled { None } else { queue.entity.map(|entity| self.tree.entities[entity].queue) };
        }
    }

    pub(crate) fn change_load(&mut self, queue: usize, by: i64) {
        self.follow_load(queue);
        let group = self.tree.queues[queue].group;
        let queue = &mut self.tree.queues[queue];
        queue.average.settle();
        queue.load = queue.load.wrapping_add_signed(by);
        let group = &mut self.tree.groups[group.0 as usize];
        group.load = group.load.wrapping_add_signed(by);
    }

    /// The weights of a thread's groups on its CPU, from the bottom up.
    pub(crate) fn update_group_weights(&mut self, task: TaskId) {
        let task = &self.tasks[task.0 as usize];
        let mut at = Some(self.queue_of(task.group, task.cpu));
        while let Some(queue) = at {
            let above = self.tree.queues[queue].entity;
            if above.is_some() {
                self.update_weight(queue);
            }
            at = above.map(|entity| self.tree.entities[entity].queue);
        }
    }

    /// A group's weight on one CPU: the part of its shares that this queue's load is of the group's (the kernel's
    /// `calc_group_shares`).
    pub(crate) fn update_weight(&mut self, queue: usize) {
        let Some(entity) = self.tree.queues[queue].entity else { return };
        if self.tree.queues[queue].load == 0 {
            return;
        }
        let (load, sum) = self.loads(queue);
        let group = &self.tree.groups[self.tree.queues[queue].group.0 as usize];
        let weight = if group.idle {
            weight::IDLE
        } else {
            let part = u128::from(group.shares) * u128::from(load) / u128::from(sum.max(1));
            (part as u64).clamp(weight::LEAST, group.shares.max(weight::LEAST))
        };
        self.reweigh(entity, weight);
    }
}
