//! Wake-ups by waker and woken thread.

use serde::{Deserialize, Serialize};

use crate::ThreadId;

/// Wake-up edges between threads, all columns of one length, in the order of the woken. Wake-ups from interrupts have no
/// waker and are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WakeUpColumns {
    /// The waker; None: a thread of no workload.
    pub waker: Vec<Option<ThreadId>>,
    /// The woken thread.
    pub woken: Vec<ThreadId>,
    /// Number of wake-ups since both are traced.
    pub count: Vec<u64>,
}

impl WakeUpColumns {
    pub(super) fn copy_from(&mut self, other: &WakeUpColumns) {
        let WakeUpColumns { waker, woken, count } = other;
        self.waker.clone_from(waker);
        self.woken.clone_from(woken);
        self.count.clone_from(count);
    }

    /// Empties every column and keeps its memory.
    pub fn clear(&mut self) {
        self.waker.clear();
        self.woken.clear();
        self.count.clear();
    }

    /// Adds an edge.
    pub fn push(&mut self, waker: Option<ThreadId>, woken: ThreadId, count: u64) {
        self.waker.push(waker);
        self.woken.push(woken);
        self.count.push(count);
    }
}
