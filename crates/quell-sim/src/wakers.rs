//! Who woke whom, and how often: the edges along which one thread's progress depends on another's.

use crate::ids::TaskId;

/// By thread: the threads that woke it, in the order of their numbers, each with how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wakers(Vec<Vec<(TaskId, u64)>>);

impl Wakers {
    /// One thread woke another.
    pub fn count(&mut self, woken: TaskId, waker: TaskId) {
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

    /// A thread is gone.
    pub fn forget(&mut self, task: TaskId) {
        if let Some(edges) = self.0.get_mut(task.0 as usize) {
            edges.clear();
        }
        self.0.iter_mut().for_each(|edges| edges.retain(|&(waker, _)| waker != task));
    }

    /// Who has woken a thread.
    pub fn of(&self, task: TaskId) -> &[(TaskId, u64)] {
        self.0.get(task.0 as usize).map_or(&[], Vec::as_slice)
    }
}
