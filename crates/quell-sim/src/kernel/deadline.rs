//! SCHED_DEADLINE: earliest deadline first, each thread within a constant-bandwidth server (Abeni and Buttazzo 1998).
//!
//! As in the kernel without HRTICK_DL, the end of a budget is noticed when the thread is accounted, at the next tick at
//! the latest; what it ran too long the next budget pays.

use quell_model::SchedClass;

use super::Kernel;
use super::fair::Departure;
use super::state::{State, TaskId, Timer};

impl Kernel {
    fn parameters(&self, task: TaskId) -> (u64, u64, u64) {
        match self.task(task).class {
            SchedClass::Deadline { runtime, deadline, period } => {
                let period = if period.0 == 0 { deadline.0 } else { period.0 };
                (runtime.0.max(1), deadline.0.max(1), period.max(1))
            }
            _ => (u64::MAX >> 1, u64::MAX, u64::MAX),
        }
    }

    /// A thread becomes a deadline thread: its first period begins now.
    pub(crate) fn prepare_budget(&mut self, task: TaskId) {
        let timer =
            self.tasks[task.0 as usize].budget.timer.unwrap_or_else(|| self.timers.add(Timer::Replenish(task.0)));
        let (runtime, deadline, _) = self.parameters(task);
        let budget = &mut self.tasks[task.0 as usize].budget;
        (budget.left, budget.deadline, budget.timer) = (runtime as i64, self.now + deadline, Some(timer));
    }

    /// At a wake-up: what is left of the old budget and deadline is kept unless that would exceed its bandwidth.
    pub(crate) fn renew_budget(&mut self, task: TaskId) {
        let (runtime, deadline, _) = self.parameters(task);
        let now = self.now;
        let budget = &mut self.tasks[task.0 as usize].budget;
        if budget.throttled {
            return;
        }
        let ahead = budget.deadline.saturating_sub(now);
        let exceeds = u128::from(budget.left.max(0).unsigned_abs()) * u128::from(deadline)
            > u128::from(runtime) * u128::from(ahead);
        if ahead == 0 || exceeds {
            (budget.left, budget.deadline) = (runtime as i64, now + deadline);
        }
    }

    /// A deadline thread ran for this long up to now.
    pub(super) fn charge_deadline(&mut self, task: TaskId, cpu: usize, span: u64) {
        let budget = &mut self.tasks[task.0 as usize].budget;
        budget.left = budget.left.saturating_sub_unsigned(span);
        if budget.left <= 0 {
            self.reschedule(cpu);
        }
    }

    /// May a thread that could go on not run any longer in this period?
    pub(crate) fn has_exhausted_budget(&self, task: TaskId) -> bool {
        let seen = self.task(task);
        matches!(seen.class, SchedClass::Deadline { .. }) && seen.queued && seen.budget.left <= 0
    }

    /// The budget is used up: the thread waits for its next period.
    pub(crate) fn exhaust_budget(&mut self, task: TaskId) {
        let (_, deadline, period) = self.parameters(task);
        let cpu = self.task(task).cpu;
        self.interrupt(task);
        self.take_off(task, Departure::Moved);
        let budget = &mut self.tasks[task.0 as usize].budget;
        budget.throttled = true;
        let at = (budget.deadline - deadline + period).max(self.now);
        if let Some(timer) = budget.timer {
            self.timers.set(timer, at);
        }
        self.reschedule(cpu);
    }

    /// The next period begins: full budget, later deadline.
    pub(crate) fn replenish(&mut self, task: TaskId) {
        let (runtime, deadline, period) = self.parameters(task);
        let now = self.now;
        let budget = &mut self.tasks[task.0 as usize].budget;
        budget.throttled = false;
        while budget.left <= 0 {
            budget.left = budget.left.saturating_add_unsigned(runtime);
            budget.deadline = budget.deadline.saturating_add(period);
        }
        if budget.deadline <= now {
            (budget.left, budget.deadline) = (runtime as i64, now + deadline);
        }
        let seen = self.task(task);
        if seen.state == State::Runnable && !seen.stopped {
            self.bring(task);
        }
    }

    pub(crate) fn join_deadline(&mut self, task: TaskId, cpu: usize) {
        let deadline = self.task(task).budget.deadline;
        let place = self.cpus[cpu].deadline.partition_point(|&other| self.task(other).budget.deadline <= deadline);
        self.cpus[cpu].deadline.insert(place, task);
    }

    /// The deadline thread that should run here, one that waits elsewhere included.
    pub(crate) fn pick_deadline(&mut self, cpu: usize) -> Option<TaskId> {
        self.pull(cpu, |cpu| &cpu.deadline);
        self.cpus[cpu].deadline.first().copied()
    }
}
