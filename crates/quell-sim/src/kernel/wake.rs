//! Threads wake up, go to sleep, end, and join and leave queues of whatever class.

use quell_model::SchedClass;

use super::class::{Class, Preempts};
use super::fair::{Arrival, Departure};
use super::state::{FULL_SPEED, State, TaskId};
use super::{ENDLESS, Interrupts, Kernel};
use crate::Stream;
use crate::mechanisms::Mechanism;

impl Kernel {
    /// A sleeping thread has work again, this many ns of it at full speed. `waker`: the CPU whose running thread, or an
    /// interrupt there, woke it; None: something outside.
    pub fn wake(&mut self, task: TaskId, work_ns: u64, waker: Option<usize>) {
        self.tasks[task.0 as usize].woken_by_thread = false;
        let seen = &mut self.tasks[task.0 as usize];
        if seen.state != State::Sleeping {
            return;
        }
        self.levels.waker = waker;
        if let Some(cpu) = waker.filter(|&cpu| self.cpus[cpu].away) {
            return self.wake_later(cpu, task, work_ns);
        }
        self.make_runnable(task, work_ns);
        if self.task(task).stopped {
            return;
        }
        if let SchedClass::Deadline { .. } = self.task(task).class {
            self.renew_budget(task);
        }
        if self.is_granted(task) {
            return self.wake_granted(task);
        }
        let is_new = self.task(task).cpu == usize::MAX;
        let delayed = self.tree.entities[self.task(task).entity].delayed;
        let cpu = if delayed && self.is_fair(task) { self.task(task).cpu } else { self.choose_cpu(task, waker) };
        let later = self.has(Mechanism::DelayedRequeueBeforeCharge) && self.is_fair(task) && {
            let seen = self.task(task);
            self.tree.is_delayed(seen.entity, self.queue_of(seen.group, cpu))
        };
        if !later {
            self.account(cpu);
        }
        self.put_on(task, cpu, if is_new { Arrival::New } else { Arrival::WakeUp });
        self.account(cpu);
        self.preempt_if_due(task, cpu, waker == Some(cpu));
        if let Some(waker) = waker.filter(|&waker| self.cpus[waker].lazy && self.has(Mechanism::LazyReschedOnIrq)) {
            self.reschedule(waker);
        }
    }

    pub(super) fn make_runnable(&mut self, task: TaskId, work_ns: u64) {
        let seen = &mut self.tasks[task.0 as usize];
        seen.state = State::Runnable;
        seen.left = if work_ns == ENDLESS { ENDLESS } else { work_ns.saturating_mul(FULL_SPEED) };
        seen.runnable_since = self.now;
        self.reports.counters.events += 1;
        self.reports.counters.wake_ups += 1;
    }

    /// The CPU on which an interrupt for this thread comes.
    pub(crate) fn interrupted(&self, task: TaskId, choices: &mut Stream) -> Option<usize> {
        match self.config.interrupts {
            Interrupts::Spread => Some(choices.below(self.cpus.len() as u32) as usize),
            Interrupts::LastCpu => self.last_cpu(task),
            Interrupts::Elsewhere => None,
        }
    }

    /// Where a thread ran last: its own timers fire there.
    pub(crate) fn last_cpu(&self, task: TaskId) -> Option<usize> {
        Some(self.task(task).cpu).filter(|&cpu| cpu < self.cpus.len())
    }

    /// A runnable thread that is in no queue finds one.
    pub(crate) fn bring(&mut self, task: TaskId) {
        if self.is_granted(task) {
            return self.wake_granted(task);
        }
        if self.task(task).class.is_real_time() && self.task(task).budget.throttled {
            return;
        }
        let cpu = self.choose_cpu(task, None);
        self.account(cpu);
        self.put_on(task, cpu, Arrival::Moved);
        self.preempt_if_due(task, cpu, false);
    }

    /// The running thread has nothing to do until it is woken.
    pub(crate) fn block(&mut self, task: TaskId) {
        self.leave_cpu(task, Departure::Asleep);
    }

    pub(super) fn leave_cpu(&mut self, task: TaskId, how: Departure) {
        if self.levels.is_on {
            self.forget_missed(task);
        }
        self.tasks[task.0 as usize].state = State::Sleeping;
        let cpu = self.task(task).cpu;
        if cpu >= self.cpus.len() {
            if self.is_granted(task) {
                self.leave_granted(task);
            }
            return;
        }
        self.account(cpu);
        let was_running = self.is_running(task);
        self.take_off(task, how);
        if was_running {
            self.reschedule(cpu);
        }
    }

    /// A thread ends: it leaves whatever it is in, and never runs again.
    pub(crate) fn end(&mut self, task: TaskId) {
        self.put_aside(task);
        self.set_request(task, None);
        self.forget_missed(task);
        self.reports.wakers.forget(task);
        let seen = &mut self.tasks[task.0 as usize];
        (seen.state, seen.stopped, seen.ended) = (State::Sleeping, true, true);
        self.timers.cancel(seen.timer);
        seen.budget.timer.into_iter().for_each(|timer| self.timers.cancel(timer));
    }

    /// Joins the queue of its class on this CPU.
    pub(crate) fn put_on(&mut self, task: TaskId, cpu: usize, arrival: Arrival) {
        let cpus = self.cpus.len();
        let seen = &mut self.tasks[task.0 as usize];
        seen.switching.migrations += u64::from(seen.cpu != cpu && seen.cpu < cpus);
        seen.cpu = cpu;
        if seen.budget.throttled {
            return;
        }
        seen.queued = true;
        self.enqueue(task, cpu, arrival);
        self.refresh_masks(cpu);
        if self.cpus[cpu].current.is_none() {
            self.reschedule(cpu);
        }
    }

    /// Leaves the queue of its class, wherever that is.
    pub(crate) fn take_off(&mut self, task: TaskId, how: Departure) {
        let cpu = self.task(task).cpu;
        let class = self.class_of(task);
        let was_queued = std::mem::take(&mut self.tasks[task.0 as usize].queued);
        self.dequeue(task, cpu, how, was_queued);
        // Those that wait for a granted CPU wait on none.
        if class != Class::Grants {
            self.refresh_masks(cpu);
        }
    }

    /// A thread came to this CPU: does it run before who runs there?
    pub(super) fn preempt_if_due(&mut self, task: TaskId, cpu: usize, is_local: bool) {
        let Some(running) = self.cpus[cpu].current else { return self.reschedule(cpu) };
        if running == task || !self.task(task).queued {
            return;
        }
        match self.preempts(task, running) {
            Preempts::No => {}
            // What wakes a thread on its own CPU looks when the system call or the interrupt returns.
            Preempts::AsSet if !is_local => self.reschedule_lazily(cpu),
            Preempts::AtOnce | Preempts::AsSet => self.reschedule(cpu),
        }
    }
}
