//! What a thread or group has of its own: weight, wake-up latency, slice, warp.
//!
//! A wake-up latency is DASEC's (dasec-socc22 §5: a `sched_wakeup_granularity_ns` of each thread); on EEVDF it is the slice,
//! and the shortest one in a queue is its group's, as in Linux from 6.12 on (`cfs_rq_min_slice`).
//! BVT: Duda and Cheriton, "Borrowed-Virtual-Time (BVT) scheduling" (SOSP 1999), §3. A thread's effective virtual time is its
//! actual one less its warp; the earliest runs; another takes its place once it is ahead by the context-switch allowance
//! (C). A thread runs warped for at most its limit (L) and is then not warped for a while (U).

use quell_model::{Nanos, Warp};

use crate::GroupId;
use crate::kernel::Kernel;
use crate::kernel::state::TaskId;
use crate::tree::Arrival;
use crate::tree::Warped;
use crate::weight::virtual_time;

impl Kernel {
    /// Sets a thread's own weight (1–10000, 100 is nice 0's); None: its nice value's.
    pub fn set_own_weight(&mut self, task: TaskId, cpu_weight: Option<u32>) {
        self.tasks[task.0 as usize].own_weight = cpu_weight;
        let (cpu, weight) = (self.task(task).cpu, self.task(task).weight());
        if cpu >= self.cpus.len() {
            return self.reweigh(self.task(task).entity, weight);
        }
        self.account(cpu);
        self.reweigh(self.task(task).entity, weight);
        if self.is_fair(task) {
            self.update_group_weights(task);
        }
    }

    /// Sets a thread's own wake-up latency; None: the kernel's.
    pub fn set_latency(&mut self, task: TaskId, latency: Option<Nanos>) {
        self.tasks[task.0 as usize].latency = latency.map(|latency| latency.0);
        self.set_slice(task);
        let seen = self.task(task);
        if seen.queued && seen.cpu < self.cpus.len() && self.is_fair(task) {
            self.lift_slices(self.queue_of(self.task(task).group, self.task(task).cpu));
        }
    }

    /// The thread's entity has the slice that was set.
    pub(crate) fn set_slice(&mut self, task: TaskId) {
        let slice = self.task(task).own_slice();
        self.fair.own_slices |= slice.is_some();
        let entity = &mut self.tree.entities[self.tasks[task.0 as usize].entity];
        entity.has_own_slice = slice.is_some();
        entity.slice = slice.unwrap_or(entity.slice);
    }

    /// Sets a thread's warp (BVT).
    pub fn set_warp(&mut self, task: TaskId, warp: Option<Warp>) {
        let entity = self.task(task).entity;
        self.warp(entity, warp);
    }

    /// Sets a group's warp (BVT), on every CPU.
    pub fn set_group_warp(&mut self, group: GroupId, warp: Option<Warp>) {
        let queues = self.tree.groups[group.0 as usize].queues;
        for cpu in 0..self.cpus.len() {
            if let Some(entity) = self.tree.queues[queues + cpu].entity {
                self.warp(entity, warp);
            }
        }
    }

    fn warp(&mut self, entity: usize, warp: Option<Warp>) {
        self.tree.entities[entity].warp = warp.map(|warp| Box::new(Warped { warp, ran: 0, rests_until: 0 }));
    }

    /// A group's entity takes the shortest slice in its queue.
    pub(crate) fn take_shortest_slice(&mut self, entity: usize, own: usize) {
        if !self.fair.own_slices {
            return;
        }
        let base = self.fair.base_slice;
        let of = |&member: &usize| {
            let member = &self.tree.entities[member];
            if member.has_own_slice { member.slice } else { base }
        };
        let shortest = self.tree.queues[own].members.iter().map(of).min();
        let is_own = shortest.is_some_and(|shortest| shortest != base);
        let seen = &mut self.tree.entities[entity];
        seen.has_own_slice = is_own;
        seen.slice = shortest.filter(|_| is_own).unwrap_or(base);
    }

    /// The same for all groups from this queue up.
    pub(crate) fn lift_slices(&mut self, mut queue: usize) {
        if !self.fair.own_slices {
            return;
        }
        while let Some(entity) = self.tree.queues[queue].entity {
            self.take_shortest_slice(entity, queue);
            queue = self.tree.entities[entity].queue;
        }
    }

    fn effective(&self, entity: usize) -> i64 {
        let seen = &self.tree.entities[entity];
        let warp = seen.warp.as_ref().filter(|warp| self.now >= warp.rests_until);
        seen.vruntime - warp.map_or(0, |warp| warp.warp.by.0 as i64)
    }

    /// BVT: the earliest effective virtual time.
    pub(super) fn earliest_effective(&self, queue: usize) -> Option<usize> {
        self.tree.queues[queue].members.iter().copied().min_by_key(|&entity| self.effective(entity))
    }

    /// BVT: is one that runs ahead of another by more than the context-switch allowance?
    pub(super) fn is_beyond_allowance(&self, now: usize, other: usize) -> bool {
        let allowance = virtual_time(self.fair.wakeup_granularity, self.tree.entities[now].weight);
        self.effective(now) - self.effective(other) > allowance
    }

    /// BVT's check at a tick: is the running thread, or one of its groups, too far ahead of another?
    pub(super) fn is_far_ahead(&self, task: TaskId) -> bool {
        let mut at = Some(self.task(task).entity);
        while let Some(entity) = at {
            let queue = &self.tree.queues[self.tree.entities[entity].queue];
            let ahead = |&other: &usize| other != entity && self.is_beyond_allowance(entity, other);
            if queue.members.iter().any(ahead) {
                return true;
            }
            at = queue.entity;
        }
        false
    }

    /// BVT: one that wakes up is no earlier than the scheduler's virtual time (A = max(A, SVT)).
    pub(super) fn place_no_earlier(&mut self, entity: usize, arrival: Arrival) {
        let zero = self.tree.queues[self.tree.entities[entity].queue].zero;
        let seen = &mut self.tree.entities[entity];
        if arrival != Arrival::Moved {
            seen.vruntime = seen.vruntime.max(zero);
        }
        if let (Arrival::WakeUp, Some(warp)) = (arrival, &mut seen.warp) {
            warp.ran = 0;
        }
    }
}
