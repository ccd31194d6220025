//! One thread wakes another, and that is counted.

use super::Kernel;
use super::state::TaskId;

impl Kernel {
    /// A running thread wakes another, as [`Kernel::wake`] from its CPU. It is counted.
    pub fn wake_by(&mut self, task: TaskId, work_ns: u64, waker: TaskId) {
        self.wake_by_from(task, work_ns, waker, self.last_cpu(waker));
    }

    /// The same, by a thread that was on this CPU when it did: it may be one of those that it wakes.
    pub(crate) fn wake_by_from(&mut self, task: TaskId, work_ns: u64, waker: TaskId, from: Option<usize>) {
        if task != waker {
            self.reports.wakers.count(task, waker);
        }
        if self.is_granted(task) {
            self.note_edge(task, waker);
        }
        self.wake(task, work_ns, from);
        self.tasks[task.0 as usize].woken_by_thread = true;
    }

    /// Who has woken a thread so far, and how often; in the order of the wakers' numbers. What woke up by an
    /// interrupt or a timer is not in it.
    #[must_use]
    pub fn wakers_of(&self, task: TaskId) -> &[(TaskId, u64)] {
        self.reports.wakers.of(task)
    }
}
