//! cpu.max: a group's CPUs take runtime from a quota that is refilled every period; without any they are throttled.
//!
//! As in the kernel, a CPU takes a slice at a time, notices that it has used it up when its time is accounted (at the
//! next tick at the latest), owes what it ran too long, and gives most of what is left back when it becomes idle.

use super::Kernel;
use super::state::{Bandwidth, GroupId, Timer};
use crate::kernel::fair::{Arrival, Departure};

/// What a CPU keeps when it gives runtime back (`min_cfs_rq_runtime`), ns.
const KEPT: i64 = 1_000_000;
/// When runtime that was given back is handed to those who wait (`cfs_bandwidth_slack_period`), ns.
const SLACK_DELAY: u64 = 5_000_000;

impl Kernel {
    /// Limits a group to `quota` ns of CPU time every `period`, and lets it save up to `burst`; None: no limit.
    pub fn set_quota(&mut self, group: GroupId, limit: Option<(u64, u64, u64)>) {
        let index = group.0 as usize;
        let waiting = self.tree.groups[index].bandwidth.take().map(|old| {
            self.timers.cancel(old.timer);
            self.timers.cancel(old.slack);
            old.throttled
        });
        if let Some((quota, period, burst)) = limit {
            let timer = self.timers.add(Timer::Period(group.0));
            let slack = self.timers.add(Timer::Slack(group.0));
            self.tree.groups[index].bandwidth = Some(Bandwidth {
                quota,
                period,
                burst,
                pool: quota,
                timer,
                slack,
                is_running: false,
                idle_period: false,
                slack_is_set: false,
                throttled: Default::default(),
                periods_throttled: 0,
                throttled_in_period: false,
            });
        }
        for queue in waiting.into_iter().flatten() {
            self.tree.queues[queue].runtime = 1;
            self.unthrottle(queue);
        }
    }

    /// Periods in which some CPU of the group had to wait for quota.
    #[must_use]
    pub fn throttled_periods(&self, group: GroupId) -> u64 {
        self.tree.groups[group.0 as usize].bandwidth.as_ref().map_or(0, |bandwidth| bandwidth.periods_throttled)
    }

    /// A queue of a group with a quota ran. Says whether it has no runtime left and can get none.
    pub(crate) fn charge_runtime(&mut self, queue: usize, span: u64) -> bool {
        self.tree.queues[queue].runtime -= span as i64;
        self.tree.queues[queue].runtime <= 0 && !self.take_runtime(queue)
    }

    /// Takes a slice from the pool, debts included. Says whether the queue has runtime then.
    fn take_runtime(&mut self, queue: usize) -> bool {
        let slice = self.config.bandwidth_slice.0;
        let now = self.now;
        let (owed, group) = (-self.tree.queues[queue].runtime, self.tree.queues[queue].group.0 as usize);
        let Some(bandwidth) = &mut self.tree.groups[group].bandwidth else { return true };
        if !bandwidth.is_running {
            bandwidth.is_running = true;
            self.timers.set(bandwidth.timer, now + bandwidth.period);
        }
        bandwidth.idle_period = false;
        let got = bandwidth.pool.min(owed.max(0) as u64 + slice);
        bandwidth.pool -= got;
        self.tree.queues[queue].runtime += got as i64;
        self.tree.queues[queue].runtime > 0
    }

    /// A queue has members again: without runtime it is throttled at once. Says whether it is.
    pub(crate) fn throttle_if_empty_handed(&mut self, queue: usize) -> bool {
        let group = self.tree.queues[queue].group.0 as usize;
        if self.tree.groups[group].bandwidth.is_none()
            || self.tree.queues[queue].members.len() > 1
            || self.tree.queues[queue].runtime > 0
            || self.take_runtime(queue)
        {
            return false;
        }
        self.mark_throttled(queue);
        // Its threads were counted above it, where they cannot be picked.
        self.count_above(queue, -1);
        true
    }

    /// The thread that ran on this CPU stopped: queues on its way up that have no runtime left are throttled.
    pub(crate) fn throttle_exhausted(&mut self, queue: usize) {
        let mut at = Some(queue);
        while let Some(queue) = at {
            let seen = &self.tree.queues[queue];
            let above = seen.entity;
            let limited = self.tree.groups[seen.group.0 as usize].bandwidth.is_some();
            if limited && !seen.throttled && seen.runtime <= 0 && !self.take_runtime(queue) {
                self.throttle(queue);
            }
            at = above.map(|entity| self.tree.entities[entity].queue);
        }
    }

    fn throttle(&mut self, queue: usize) {
        let Some(entity) = self.tree.queues[queue].entity else { return };
        self.count_above(queue, -1);
        self.mark_throttled(queue);
        if self.tree.entities[entity].queued {
            self.withdraw(entity, Departure::Throttled);
        }
    }

    fn mark_throttled(&mut self, queue: usize) {
        self.tree.queues[queue].throttled = true;
        if let Some(bandwidth) = &mut self.tree.groups[self.tree.queues[queue].group.0 as usize].bandwidth {
            bandwidth.throttled.push_back(queue);
            bandwidth.throttled_in_period = true;
        }
    }

    /// Adds (1) or takes (−1) a queue's threads from the counts above it.
    fn count_above(&mut self, queue: usize, sign: i32) {
        let seen = &self.tree.queues[queue];
        let (tasks, idle) = (seen.tasks as i32 * sign, seen.idle_tasks as i32 * sign);
        let mut at = seen.entity.map(|entity| self.tree.entities[entity].queue);
        let mut is_idle = self.tree.groups[seen.group.0 as usize].idle;
        while let Some(queue) = at {
            is_idle |= self.tree.groups[self.tree.queues[queue].group.0 as usize].idle;
            let seen = &mut self.tree.queues[queue];
            seen.tasks = seen.tasks.wrapping_add_signed(tasks);
            seen.idle_tasks = seen.idle_tasks.wrapping_add_signed(if is_idle { tasks } else { idle });
            at = if seen.throttled { None } else { seen.entity.map(|entity| self.tree.entities[entity].queue) };
        }
    }

    fn unthrottle(&mut self, queue: usize) {
        let cpu = self.tree.queues[queue].cpu;
        self.account(cpu);
        self.tree.queues[queue].throttled = false;
        self.count_above(queue, 1);
        let mut below = queue;
        while !self.tree.queues[below].members.is_empty()
            && let Some(entity) = self.tree.queues[below].entity
        {
            if self.tree.entities[entity].queued {
                self.tree.entities[entity].delayed = false;
                break;
            }
            let above = self.tree.entities[entity].queue;
            self.join(entity, above, Arrival::WakeUp);
            if self.tree.queues[above].throttled {
                break;
            }
            below = above;
        }
        self.refresh_masks(cpu);
        if self.cpus[cpu].current.is_none() {
            self.reschedule(cpu);
        }
    }

    /// A period ends: the quota is full again, and what waits gets what it owes.
    pub(crate) fn refill(&mut self, group: u32) {
        let Some(bandwidth) = &mut self.tree.groups[group as usize].bandwidth else { return };
        bandwidth.pool = (bandwidth.pool + bandwidth.quota).min(bandwidth.quota + bandwidth.burst);
        if std::mem::take(&mut bandwidth.throttled_in_period) {
            bandwidth.periods_throttled += 1;
        }
        if bandwidth.throttled.is_empty() && bandwidth.idle_period {
            bandwidth.is_running = false;
            return;
        }
        bandwidth.idle_period = true;
        self.timers.set(bandwidth.timer, self.now + bandwidth.period);
        self.hand_out(group);
    }

    /// Quota that was given back goes to those who wait.
    pub(crate) fn hand_out_slack(&mut self, group: u32) {
        if let Some(bandwidth) = &mut self.tree.groups[group as usize].bandwidth {
            bandwidth.slack_is_set = false;
            self.hand_out(group);
        }
    }

    fn hand_out(&mut self, group: u32) {
        let waiting =
            self.tree.groups[group as usize].bandwidth.as_ref().map_or(0, |bandwidth| bandwidth.throttled.len());
        for _ in 0..waiting {
            let Some(bandwidth) = &mut self.tree.groups[group as usize].bandwidth else { return };
            if bandwidth.pool == 0 {
                bandwidth.throttled_in_period = true;
                return;
            }
            let Some(queue) = bandwidth.throttled.pop_front() else { return };
            let got = bandwidth.pool.min((1 - self.tree.queues[queue].runtime).max(0) as u64);
            bandwidth.pool -= got;
            bandwidth.idle_period = false;
            self.tree.queues[queue].runtime += got as i64;
            if self.tree.queues[queue].runtime > 0 {
                self.unthrottle(queue);
            } else {
                bandwidth.throttled.push_front(queue);
            }
        }
    }

    /// An empty queue keeps a little runtime and gives the rest back.
    pub(crate) fn give_runtime_back(&mut self, queue: usize) {
        let slice = self.config.bandwidth_slice.0;
        let group = self.tree.queues[queue].group.0 as usize;
        let Some(bandwidth) = &mut self.tree.groups[group].bandwidth else { return };
        let spare = self.tree.queues[queue].runtime - KEPT;
        if spare <= 0 {
            return;
        }
        self.tree.queues[queue].runtime = KEPT;
        bandwidth.pool += spare as u64;
        if bandwidth.pool > slice && !bandwidth.throttled.is_empty() && !bandwidth.slack_is_set {
            bandwidth.slack_is_set = true;
            self.timers.set(bandwidth.slack, self.now + SLACK_DELAY);
        }
    }
}
