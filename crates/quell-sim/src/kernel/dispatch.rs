//! One CPU: what ran is accounted, somebody is picked, threads are switched.

use quell_model::{CpuId, PreemptionMode};

use super::class::{CLASSES, Class};
use super::state::{ENDLESS, FULL_SPEED, LATE_START, State, TaskId};
use super::{Kernel, RealTimeLimit};
use crate::mechanisms::Mechanism;

/// The fair server: so much CPU time, ns, …
const SERVED: u64 = 50_000_000;
/// … once ordinary threads have waited this long, ns: the server's period of a second less its budget.
const STARVED_AFTER: u64 = 950_000_000;

impl Kernel {
    /// Charges the CPU's running thread with the time since the last look.
    pub(crate) fn account(&mut self, cpu: usize) {
        let now = self.now;
        let seen = &mut self.cpus[cpu];
        let from = seen.accounted.max(seen.progressed).max(seen.work_from);
        let span = now - seen.accounted;
        seen.accounted = now;
        let Some(task) = seen.current.filter(|_| span > 0 && !seen.away) else { return };
        seen.busy_time += span;
        let speed = seen.speed;
        let running = &mut self.tasks[task.0 as usize];
        running.run_time += span;
        if running.left != ENDLESS && now > from {
            running.left = running.left.saturating_sub((now - from) * speed);
        }
        self.charge(task, cpu, span);
    }

    /// The CPU picks again at the end of this event.
    pub(crate) fn reschedule(&mut self, cpu: usize) {
        if !std::mem::replace(&mut self.cpus[cpu].pending, true) {
            self.masks.pending.push(cpu);
        }
    }

    /// An ordinary thread should give way: at the next tick if preemption is lazy, else at once.
    pub(crate) fn reschedule_lazily(&mut self, cpu: usize) {
        match self.config.preemption {
            PreemptionMode::Lazy => self.cpus[cpu].lazy = true,
            _ => self.reschedule(cpu),
        }
    }

    /// Lets every CPU pick that has to.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if !self.masks.pending.is_empty() {
            self.pick_where_pending();
        }
    }

    fn pick_where_pending(&mut self) {
        while let Some(cpu) = self.masks.pending.pop() {
            if self.cpus[cpu].away {
                self.note(cpu);
            } else if std::mem::take(&mut self.cpus[cpu].pending) {
                self.schedule(cpu);
            }
        }
    }

    fn schedule(&mut self, cpu: usize) {
        self.account(cpu);
        self.cpus[cpu].pending = false;
        let previous = self.cpus[cpu].current;
        // Work that ends at this very moment has ended before anything else happens here.
        if previous.is_some_and(|task| self.task(task).left == 0 && self.is_runnable(task)) {
            self.cpus[cpu].picks_after_completion = true;
            return self.timers.set(self.cpus[cpu].stop, self.now);
        }
        self.cpus[cpu].lazy = false;
        if let Some(task) = previous {
            if self.has_exhausted_budget(task) {
                self.exhaust_budget(task);
            }
            let group = self.task(task).group;
            if !self.has(Mechanism::SliceProtectionAtPick) {
                self.fair_end(group, cpu);
            }
            if self.is_fair(task) {
                self.throttle_exhausted(self.queue_of(group, cpu));
            }
        }
        let mut next = self.pick(cpu);
        if next.is_none() && self.balance_before_idling(cpu) {
            next = self.pick(cpu);
        }
        if self.has(Mechanism::SliceProtectionAtPick) {
            self.fair_pass(cpu, previous, next.filter(|&task| self.is_fair(task)));
        } else if let Some(task) = next.filter(|&task| self.is_fair(task)) {
            self.fair_begin(task);
        }
        // Of one who was interrupted a tick may be left.
        if next != previous || (next.is_none() && self.cpus[cpu].tick_is_set) {
            self.switch(cpu, previous, next);
        }
        self.refresh_masks(cpu);
        self.set_stop(cpu);
    }

    /// The first class that has a thread; while the fair server serves, fair comes first.
    fn pick(&mut self, cpu: usize) -> Option<TaskId> {
        if self.cpus[cpu].serving.is_some() {
            let has_budget = self.cpus[cpu].serving != Some(0);
            let served = if has_budget { self.fair_pick(cpu) } else { None };
            if served.is_some() {
                return served;
            }
            self.cpus[cpu].serving = None;
        }
        for class in CLASSES {
            // No real-time thread keeps ordinary ones from this CPU.
            if class == Class::Servers && std::mem::take(&mut self.cpus[cpu].fair_server_is_set) {
                self.timers.cancel(self.cpus[cpu].fair_server);
            }
            let picked = self.pick_of(class, cpu);
            if picked.is_some() {
                if class < Class::Servers {
                    self.watch_for_starvation(cpu);
                }
                return picked;
            }
        }
        None
    }

    /// An ordinary thread ran here: the fair server's budget may be used up.
    pub(super) fn charge_fair_server(&mut self, cpu: usize, span: u64) {
        if let Some(left) = &mut self.cpus[cpu].serving {
            *left = left.saturating_sub(span);
            if *left == 0 {
                self.reschedule(cpu);
            }
        }
    }

    fn watch_for_starvation(&mut self, cpu: usize) {
        let seen = &mut self.cpus[cpu];
        if self.config.real_time_limit == RealTimeLimit::FairServer
            && self.tree.queues[cpu].tasks > 0
            && !std::mem::replace(&mut seen.fair_server_is_set, true)
        {
            self.timers.set(seen.fair_server, self.now + STARVED_AFTER);
        }
    }

    /// Ordinary threads have starved: they get their part now.
    pub(crate) fn serve_fair(&mut self, cpu: usize) {
        if self.cpus[cpu].away {
            return self.miss_fair_server(cpu);
        }
        self.cpus[cpu].fair_server_is_set = false;
        if self.tree.queues[cpu].tasks > 0 {
            self.cpus[cpu].serving = Some(SERVED);
            self.reschedule(cpu);
        }
    }

    fn switch(&mut self, cpu: usize, previous: Option<TaskId>, next: Option<TaskId>) {
        let now = self.now;
        if let Some(task) = previous {
            self.trace_end(cpu, task);
            self.rest(task, cpu);
        }
        self.trace_begin(cpu);
        if self.has(Mechanism::SisUtil) {
            self.note_use(cpu);
        }
        let costs = self.config.costs;
        self.note(cpu);
        let mut cost = if previous.is_none() { costs.idle_exit.0 } else { costs.context_switch.0 };
        if let Some(task) = next {
            self.reports.counters.events += 1;
            self.reports.counters.switches += 1;
            let from = self.tasks[task.0 as usize].ran_on;
            if from != cpu && from < self.cpus.len() {
                self.reports.counters.migrations += 1;
                // Others were counted when they came into the CPU's queue.
                let is_granted = self.is_granted(task);
                self.tasks[task.0 as usize].switching.migrations += u64::from(is_granted);
                cost += self.migration_cost(from, cpu);
            }
            let seen = &mut self.tasks[task.0 as usize];
            seen.run_delay += now - seen.runnable_since;
            // One that lost its CPU waits since it ran.
            let was_woken = seen.runnable_since > seen.ran_at;
            if std::mem::take(&mut seen.is_new) {
                cost += costs.begin.0;
            } else if was_woken {
                cost += costs.wake_up.0 + if seen.woken_by_thread { costs.wake_up_by_thread.0 } else { 0 };
            }
            let bound = seen.latency.unwrap_or(LATE_START);
            seen.late_starts += u64::from(was_woken && now > seen.runnable_since + bound);
            seen.ran_on = cpu;
            seen.turn_began = now;
            if previous.is_none() {
                let idle = now - self.cpus[cpu].idle_since;
                let mean = &mut self.cpus[cpu].mean_idle;
                *mean = (*mean - *mean / 8 + idle / 8).min(1_000_000);
            }
            if !std::mem::replace(&mut self.cpus[cpu].tick_is_set, true) {
                let at = self.fair.chance.next_tick(now, self.config.tick.0);
                self.timers.set(self.cpus[cpu].tick, at);
            }
        } else {
            self.cpus[cpu].idle_since = now;
            self.timers.cancel(self.cpus[cpu].tick);
            self.cpus[cpu].tick_is_set = false;
        }
        let seen = &mut self.cpus[cpu];
        seen.current = next;
        seen.accounted = now;
        self.phases.note(cpu);
        let seen = &mut self.cpus[cpu];
        seen.work_from = now.max(seen.enters_at) + cost;
    }

    /// A thread stops running here; if it can run on it waits from now on.
    fn rest(&mut self, task: TaskId, cpu: usize) {
        let seen = &mut self.tasks[task.0 as usize];
        seen.runnable_since = self.now;
        seen.ran_at = self.now;
        seen.ran_on = cpu;
        seen.switching.sleeps += u64::from(seen.state == State::Sleeping);
        seen.switching.preemptions += u64::from(seen.state == State::Runnable && !seen.stopped);
        self.put_back(task, cpu);
    }

    /// If the thread runs, its CPU runs nothing until it picks again at the end of this event.
    pub(crate) fn interrupt(&mut self, task: TaskId) {
        let cpu = self.task(task).cpu;
        if !self.is_running(task) {
            return;
        }
        self.fair_end(self.task(task).group, cpu);
        self.trace_end(cpu, task);
        self.cpus[cpu].current = None;
        self.phases.note(cpu);
        self.cpus[cpu].idle_since = self.now;
        let seen = &mut self.tasks[task.0 as usize];
        (seen.runnable_since, seen.ran_at, seen.ran_on) = (self.now, self.now, cpu);
        self.timers.cancel(self.cpus[cpu].stop);
        self.note(cpu);
        self.reschedule(cpu);
    }

    fn migration_cost(&self, from: usize, to: usize) -> u64 {
        let cpu = |number: usize| self.topology.cpus()[number];
        let (from, to) = (cpu(from), cpu(to));
        match () {
            () if from.core == to.core => 0,
            () if from.llc == to.llc => self.config.costs.migration_near.0,
            () => self.config.costs.migration_far.0,
        }
    }

    /// Sets the timer for when the running thread has done its work, or may not run on.
    pub(crate) fn set_stop(&mut self, cpu: usize) {
        let seen = &self.cpus[cpu];
        let Some(task) = seen.current.filter(|_| !seen.away) else { return self.timers.cancel(seen.stop) };
        let running = &self.tasks[task.0 as usize];
        let mut at = u64::MAX;
        if running.left != ENDLESS {
            at = seen.work_from.max(self.now) + running.left.div_ceil(seen.speed);
        }
        if let Some(left) = seen.serving {
            at = at.min(self.now + left);
        }
        if running.served.is_some() {
            at = at.min(self.server_stops_at(task, cpu));
        }
        let seen = &self.cpus[cpu];
        match at {
            u64::MAX => self.timers.cancel(seen.stop),
            at => self.timers.set(seen.stop, at),
        }
    }

    /// The stop timer: returns the thread that has done its work, if that is why.
    pub(crate) fn stop(&mut self, cpu: usize) -> Option<TaskId> {
        self.account(cpu);
        let task = self.cpus[cpu].current?;
        let running = &self.tasks[task.0 as usize];
        if running.left == 0 {
            self.reports.counters.events += 1;
            if std::mem::take(&mut self.cpus[cpu].picks_after_completion) {
                self.reschedule(cpu);
            }
            return Some(task);
        }
        if running.served.is_some() {
            self.reschedule(cpu);
        } else {
            self.set_stop(cpu);
        }
        None
    }

    /// A runnable thread has other work from now on.
    #[inline]
    pub(crate) fn continue_with(&mut self, task: TaskId, work_ns: u64) {
        let (cpu, is_running) = (self.task(task).cpu, self.is_running(task));
        if is_running && self.cpus[cpu].accounted < self.now {
            self.account(cpu);
        }
        self.tasks[task.0 as usize].left = work_ns.saturating_mul(FULL_SPEED);
        if is_running {
            self.set_stop(cpu);
        }
    }

    /// Work that a thread has left, ns at full speed.
    pub(crate) fn work_left(&mut self, task: TaskId) -> u64 {
        if self.is_running(task) {
            self.account(self.task(task).cpu);
        }
        self.task(task).left / FULL_SPEED
    }

    /// The tick on a busy CPU.
    pub(crate) fn tick(&mut self, cpu: usize) {
        if self.cpus[cpu].away {
            return self.miss_tick(cpu);
        }
        let at = self.fair.chance.next_tick(self.now, self.config.tick.0);
        self.timers.set(self.cpus[cpu].tick, at);
        self.reports.counters.events += 1;
        self.account(cpu);
        if let Some(task) = self.cpus[cpu].current {
            self.tick_of(task, cpu);
        }
        if std::mem::take(&mut self.cpus[cpu].lazy) {
            self.reschedule(cpu);
        }
        let cost = self.config.costs.tick.0;
        if cost > 0 {
            let seen = &mut self.cpus[cpu];
            seen.work_from = seen.work_from.max(self.now) + cost;
            self.set_stop(cpu);
            self.note(cpu);
        }
        self.fade_loads(cpu);
        self.balance_at_tick(cpu);
    }

    /// Is the CPU allowed for the thread?
    pub(crate) fn may_run(&self, task: TaskId, cpu: usize) -> bool {
        self.task(task).allowed.contains(CpuId(cpu as u32))
    }
}
