//! Who woke whom, and how often: the edges along which one thread's progress depends on another's.

use super::Kernel;
use super::state::TaskId;

/// By thread: the threads that woke it, in the order of their numbers, each with how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wakers(Vec<Vec<(TaskId, u64)>>);

impl Wakers {
    fn count(&mut self, woken: TaskId, waker: TaskId) {
        let index = woken.0 as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, Vec::new());
        }
        let edges = &mut self.0[index];
        match edges.binary_search_by_key(&waker, |&(other, _)| other) {
            Ok(place) => edges[place].1 += 1,
            Err(place) => edges.insert(place, (waker, 1)),
        }
    }
}

impl Wakers {
    /// A thread is gone.
    pub(super) fn forget(&mut self, task: TaskId) {
        if let Some(edges) = self.0.get_mut(task.0 as usize) {
            edges.clear();
        }
        self.0.iter_mut().for_each(|edges| edges.retain(|&(waker, _)| waker != task));
    }
}

impl Kernel {
    /// A running thread wakes another, as [`Kernel::wake`] from its CPU. It is counted.
    pub fn wake_by(&mut self, task: TaskId, work_ns: u64, waker: TaskId) {
        self.wake_by_from(task, work_ns, waker, self.last_cpu(waker));
    }

    /// The same, by a thread that was on this CPU when it did: it may be one of those that it wakes.
    pub(crate) fn wake_by_from(&mut self, task: TaskId, work_ns: u64, waker: TaskId, from: Option<usize>) {
        if task != waker {
            self.wakers.count(task, waker);
        }
        self.wake(task, work_ns, from);
    }

    /// Who has woken a thread so far, and how often; in the order of the wakers' numbers. What woke up by an
    /// interrupt or a timer is not in it.
    #[must_use]
    pub fn wakers_of(&self, task: TaskId) -> &[(TaskId, u64)] {
        self.wakers.0.get(task.0 as usize).map_or(&[], Vec::as_slice)
    }
}
