//! A queue's virtual time, who is eligible, where an entity is placed.
//!
//! EEVDF (Stoica and Abdel-Wahab 1995, as in Linux 6.18's `kernel/sched/fair.c`): the queue's virtual time V is the
//! mean of its members' virtual run times, by weight. An entity's lag is V − v; it is eligible while that is not
//! negative; among the eligible the earliest virtual deadline runs.

use crate::config::FairScheduler;
use crate::kernel::Kernel;
use crate::tree::{Arrival, Mean};
use crate::weight::{self, SCALE, virtual_time};

impl Kernel {
    /// A queue's virtual time, over all its members.
    pub(crate) fn mean(&self, queue: usize) -> Mean {
        self.tree.mean(queue)
    }

    /// The virtual time that an entity's slice lasts.
    pub(crate) fn virtual_slice(&self, entity: usize) -> i64 {
        let entity = &self.tree.entities[entity];
        virtual_time(entity.slice, entity.weight)
    }

    /// The entity's lag behind its queue, within the kernel's bounds: two slices, or a tick.
    pub(crate) fn lag(&self, entity: usize) -> i64 {
        let seen = &self.tree.entities[entity];
        let lag = self.mean(seen.queue).now() - seen.vruntime;
        let limit = virtual_time((2 * seen.slice).max(self.config.tick.0), seen.weight);
        lag.clamp(-limit, limit)
    }

    /// Gives an entity that is about to join its queue its virtual run time and deadline.
    pub(crate) fn place(&mut self, entity: usize, arrival: Arrival) {
        if !self.tree.entities[entity].has_own_slice {
            self.tree.entities[entity].slice = self.fair.base_slice;
        }
        match self.config.fair {
            FairScheduler::Eevdf => self.place_by_lag(entity, arrival),
            FairScheduler::Cfs => self.place_by_least(entity, arrival),
            FairScheduler::Bvt => self.place_no_earlier(entity, arrival),
        }
    }

    fn place_by_lag(&mut self, entity: usize, arrival: Arrival) {
        let slice = self.virtual_slice(entity);
        let seen = &self.tree.entities[entity];
        let mean = self.mean(seen.queue);
        // Joining moves the queue's virtual time; the lag is stretched so that what remains after it is the lag.
        let own = (seen.weight >> SCALE) as i64;
        let lag = if mean.load == 0 {
            0
        } else {
            (i128::from(seen.lag) * i128::from(mean.load + own) / i128::from(mean.load)) as i64
        };
        let entity = &mut self.tree.entities[entity];
        entity.vruntime = mean.now() - lag;
        if std::mem::take(&mut entity.deadline_is_relative) {
            entity.deadline += entity.vruntime;
            return;
        }
        // A newcomer's first slice is half as long, "to ease into the competition".
        let slice = if arrival == Arrival::New { slice / 2 } else { slice };
        entity.deadline = entity.vruntime + slice;
    }

    /// CFS's `place_entity`: a newcomer waits for one slice; a sleeper is at most half a latency behind.
    fn place_by_least(&mut self, entity: usize, arrival: Arrival) {
        let seen = &self.tree.entities[entity];
        let zero = self.tree.queues[seen.queue].zero;
        let ideal = self.ideal_run_time(entity);
        let entity = &mut self.tree.entities[entity];
        entity.vruntime = match arrival {
            Arrival::New => entity.vruntime.max(zero + virtual_time(ideal, entity.weight)),
            Arrival::WakeUp => entity.vruntime.max(zero - (self.fair.latency / 2) as i64),
            Arrival::Moved => entity.vruntime,
        };
    }

    /// CFS's `sched_slice`: the part of a scheduling period that an entity should run at once.
    pub(crate) fn ideal_run_time(&self, entity: usize) -> u64 {
        let root = self.tree.entities[entity].queue;
        let tasks = u64::from(self.tree.queues[root].tasks).max(1);
        let most = self.fair.latency / self.fair.min_granularity.max(1);
        let mut slice = if tasks > most { tasks * self.fair.min_granularity } else { self.fair.latency };
        let mut at = Some(entity);
        while let Some(entity) = at {
            let seen = &self.tree.entities[entity];
            let queue = &self.tree.queues[seen.queue];
            let load = if seen.queued { queue.load } else { queue.load + seen.weight };
            slice = (u128::from(slice) * u128::from(seen.weight) / u128::from(load.max(1))) as u64;
            at = queue.entity;
        }
        slice.max(self.fair.min_granularity)
    }

    /// Changes the weight of an entity. Its lag in real time stays what it was, so the queue's virtual time does too.
    pub(crate) fn reweigh(&mut self, entity: usize, weight: u64) {
        let weight = weight.max(weight::LEAST);
        let old = self.tree.entities[entity].weight;
        if old == weight {
            return;
        }
        let rescaled = |span: i64| (i128::from(span) * i128::from(old) / i128::from(weight)) as i64;
        if self.tree.entities[entity].queued {
            let queue = self.tree.entities[entity].queue;
            if self.config.fair == FairScheduler::Eevdf {
                let now = self.mean(queue).now();
                let seen = &mut self.tree.entities[entity];
                let (deadline, protected) = (seen.deadline - seen.vruntime, seen.protected_until - seen.vruntime);
                seen.vruntime = now - rescaled(now - seen.vruntime);
                seen.deadline = seen.vruntime + rescaled(deadline);
                seen.protected_until = seen.vruntime + rescaled(protected);
            }
            self.tree.entities[entity].weight = weight;
            self.change_load(queue, weight as i64 - old as i64);
        } else {
            let seen = &mut self.tree.entities[entity];
            seen.lag = rescaled(seen.lag);
            if seen.deadline_is_relative {
                seen.deadline = rescaled(seen.deadline);
            }
            seen.weight = weight;
        }
    }
}
