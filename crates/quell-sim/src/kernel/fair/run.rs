//! Who runs next, what running costs in virtual time, and when the running one gives way.

use quell_model::SchedClass;

use crate::config::FairScheduler;
use crate::kernel::Kernel;
use crate::kernel::state::{Content, GroupId, TaskId};
use crate::weight::virtual_time;

impl Kernel {
    /// The thread that should run on this CPU, if there is one. Delayed entities that come up are taken out.
    pub(crate) fn fair_pick(&mut self, cpu: usize) -> Option<TaskId> {
        'again: loop {
            let mut queue = cpu;
            loop {
                let entity = match self.config.fair {
                    FairScheduler::Eevdf => self.earliest_deadline(queue, true)?,
                    FairScheduler::Cfs => self.least_virtual(queue)?,
                    FairScheduler::Bvt => self.earliest_effective(queue)?,
                };
                if self.tree.entities[entity].delayed {
                    self.finish_delayed(entity);
                    continue 'again;
                }
                match self.tree.entities[entity].content {
                    Content::Task(task) => return Some(task),
                    Content::Queue(below) => queue = below,
                }
            }
        }
    }

    /// EEVDF's `pick_eevdf`. With `keeps` the running entity stays while its slice is protected.
    fn earliest_deadline(&self, queue: usize, keeps: bool) -> Option<usize> {
        let seen = &self.tree.queues[queue];
        if let [only] = seen.members[..] {
            return Some(only);
        }
        let mean = self.mean(queue);
        let current = seen.current.filter(|&entity| {
            let entity = &self.tree.entities[entity];
            // It may have slept and woken up on another CPU in this very moment.
            entity.queue == queue && entity.queued && !entity.delayed && mean.is_eligible(entity.vruntime)
        });
        if let Some(entity) = current.filter(|_| keeps)
            && self.tree.entities[entity].protected_until > self.tree.entities[entity].vruntime
        {
            return Some(entity);
        }
        let mut best: Option<usize> = None;
        for &member in &seen.members {
            let entity = &self.tree.entities[member];
            if Some(member) == seen.current || !mean.is_eligible(entity.vruntime) {
                continue;
            }
            if best.is_none_or(|best| entity.deadline < self.tree.entities[best].deadline) {
                best = Some(member);
            }
        }
        match (best, current) {
            (Some(best), Some(current)) if self.tree.entities[current].deadline < self.tree.entities[best].deadline => {
                Some(current)
            }
            (None, current) => current.or(seen.members.first().copied()),
            (best, _) => best,
        }
    }

    /// CFS: the least virtual run time.
    fn least_virtual(&self, queue: usize) -> Option<usize> {
        self.tree.queues[queue].members.iter().copied().min_by_key(|&entity| self.tree.entities[entity].vruntime)
    }

    /// A picked thread begins to run: it and its groups are the current ones of their queues.
    pub(crate) fn fair_begin(&mut self, task: TaskId) {
        let mut at = Some(self.tasks[task.0 as usize].entity);
        while let Some(entity) = at {
            self.protect(entity);
            at = self.above(entity);
        }
    }

    /// An entity becomes its queue's current one, and is protected for the shortest slice in the queue (RUN_TO_PARITY).
    fn protect(&mut self, entity: usize) {
        let queue = self.tree.entities[entity].queue;
        self.tree.queues[queue].current = Some(entity);
        let least = self.tree.queues[queue].members.iter().map(|&member| self.tree.entities[member].slice).min();
        let seen = &mut self.tree.entities[entity];
        seen.picked_at = seen.run_time;
        let least = least.unwrap_or(seen.slice).min(seen.slice);
        seen.protected_until = seen.deadline.min(seen.vruntime + virtual_time(least, seen.weight));
    }

    /// The CPU goes from one thread to another, of which each may be none or not fair: entities above both go on as they were.
    pub(crate) fn fair_pass(&mut self, cpu: usize, previous: Option<TaskId>, next: Option<TaskId>) {
        let stays = |kernel: &Kernel, queue: usize| {
            let mut at = next.map(|task| kernel.task(task).entity);
            while let Some(entity) = at {
                if kernel.tree.entities[entity].queue == queue {
                    return kernel.tree.queues[queue].current == Some(entity);
                }
                at = kernel.above(entity);
            }
            false
        };
        let mut at = previous.map(|task| self.queue_of(self.task(task).group, cpu));
        while let Some(queue) = at {
            if !stays(self, queue) {
                self.tree.queues[queue].current = None;
            }
            at = self.tree.queues[queue].entity.map(|entity| self.tree.entities[entity].queue);
        }
        let mut at = next.map(|task| self.task(task).entity);
        while let Some(entity) = at {
            if self.tree.queues[self.tree.entities[entity].queue].current != Some(entity) {
                self.protect(entity);
            }
            at = self.above(entity);
        }
    }

    /// A thread of this group stops running on this CPU.
    pub(crate) fn fair_end(&mut self, group: GroupId, cpu: usize) {
        let mut at = Some(self.queue_of(group, cpu));
        while let Some(queue) = at {
            self.tree.queues[queue].current = None;
            at = self.tree.queues[queue].entity.map(|entity| self.tree.entities[entity].queue);
        }
    }

    /// The running thread ran for this long. Says whether another should run now.
    pub(crate) fn fair_charge(&mut self, task: TaskId, span: u64) -> bool {
        let (mut gives_way, is_eevdf) = (false, self.config.fair == FairScheduler::Eevdf);
        let mut at = Some(self.tasks[task.0 as usize].entity);
        while let Some(entity) = at {
            let (entities, queues) = (&mut self.tree.entities[..], &mut self.tree.queues[..]);
            let seen = &mut entities[entity];
            seen.run_time += span;
            seen.vruntime += virtual_time(span, seen.weight);
            let number = seen.queue;
            let queue = &mut queues[number];
            if let Some(warp) = &mut seen.warp {
                warp.ran(span, self.now);
            }
            if is_eevdf {
                let ended = seen.vruntime >= seen.deadline;
                if ended {
                    let own = seen.has_own_slice;
                    seen.slice = if own { seen.slice } else { self.fair.base_slice };
                    seen.deadline = seen.vruntime + virtual_time(seen.slice, seen.weight);
                }
                let unprotected = seen.protected_until <= seen.vruntime;
                gives_way |= (ended || unprotected) && queue.members.len() > 1;
            }
            // The queue's zero rises to the least of its members.
            if let [first, rest @ ..] = &queue.members[..] {
                let least = |least: i64, &member: &usize| least.min(entities[member].vruntime);
                queue.zero = queue.zero.max(rest.iter().fold(entities[*first].vruntime, least));
            }
            at = queue.entity;
            if self.tree.groups[queue.group.0 as usize].bandwidth.is_some() {
                gives_way |= self.charge_runtime(number, span);
            }
        }
        gives_way
    }

    /// CFS's check at a tick: has the running thread, or one of its groups, had its part of the period?
    pub(crate) fn fair_tick(&self, task: TaskId) -> bool {
        match self.config.fair {
            FairScheduler::Eevdf => return false,
            FairScheduler::Bvt => return self.is_far_ahead(task),
            FairScheduler::Cfs => {}
        }
        let mut at = Some(self.tasks[task.0 as usize].entity);
        while let Some(entity) = at {
            let seen = &self.tree.entities[entity];
            let queue = &self.tree.queues[seen.queue];
            at = queue.entity;
            if queue.members.len() < 2 {
                continue;
            }
            let (ran, ideal) = (seen.run_time - seen.picked_at, self.ideal_run_time(entity));
            if ran > ideal {
                return true;
            }
            let others = queue.members.iter().filter(|&&member| member != entity);
            let least = others.map(|&member| self.tree.entities[member].vruntime).min();
            if ran >= self.fair.min_granularity && least.is_some_and(|least| seen.vruntime - least > ideal as i64) {
                return true;
            }
        }
        false
    }

    /// Should a thread that woke up on the CPU run before the ordinary one that runs there?
    pub(crate) fn fair_preempts(&mut self, woken: TaskId, running: TaskId) -> bool {
        let (mut new, mut now) = (self.tasks[woken.0 as usize].entity, self.tasks[running.0 as usize].entity);
        while self.tree.entities[new].queue != self.tree.entities[now].queue {
            let (above_new, above_now) = (self.above(new), self.above(now));
            match self.tree.entities[new].depth.cmp(&self.tree.entities[now].depth) {
                std::cmp::Ordering::Greater => new = above_new.unwrap_or(new),
                std::cmp::Ordering::Less => now = above_now.unwrap_or(now),
                std::cmp::Ordering::Equal => {
                    let (Some(above_new), Some(above_now)) = (above_new, above_now) else { return false };
                    (new, now) = (above_new, above_now);
                }
            }
        }
        if new == now || !self.tree.entities[new].queued {
            return false;
        }
        match (self.is_idle_entity(now), self.is_idle_entity(new)) {
            (true, false) => {
                self.tree.entities[now].protected_until = self.tree.entities[now].vruntime;
                return true;
            }
            (false, true) => return false,
            _ => {}
        }
        if matches!(self.tasks[woken.0 as usize].class, SchedClass::Batch { .. } | SchedClass::Idle) {
            return false;
        }
        match self.config.fair {
            FairScheduler::Eevdf => {
                let queue = self.tree.entities[new].queue;
                let short = self.is_short_preemption(queue, new, now);
                if short {
                    self.tree.entities[now].protected_until = self.tree.entities[now].vruntime;
                }
                self.earliest_deadline(queue, !short) == Some(new)
            }
            // The woken thread's own latency counts, whichever of its groups is compared.
            FairScheduler::Cfs => {
                let latency = self.task(woken).latency.unwrap_or(self.fair.wakeup_granularity);
                let (new, now) = (&self.tree.entities[new], &self.tree.entities[now]);
                now.vruntime - new.vruntime > virtual_time(latency, new.weight)
            }
            FairScheduler::Bvt => self.is_beyond_allowance(now, new),
        }
    }

    /// PREEMPT_SHORT: a shorter slice may cut a longer one's protection.
    fn is_short_preemption(&self, queue: usize, new: usize, now: usize) -> bool {
        let mean = self.mean(queue);
        let (new, now) = (&self.tree.entities[new], &self.tree.entities[now]);
        new.slice < now.slice
            && mean.is_eligible(new.vruntime)
            && (new.deadline < now.deadline || !mean.is_eligible(now.vruntime))
    }

    fn above(&self, entity: usize) -> Option<usize> {
        self.tree.queues[self.tree.entities[entity].queue].entity
    }

    fn is_idle_entity(&self, entity: usize) -> bool {
        let seen = &self.tree.entities[entity];
        match seen.content {
            Content::Task(_) => seen.idle,
            Content::Queue(queue) => self.tree.groups[self.tree.queues[queue].group.0 as usize].idle,
        }
    }
}
