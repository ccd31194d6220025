//! Jobs whose threads meet at barriers.

use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, TaskId};
use crate::workload::load::Common;
use crate::workload::service::Service;

/// A job of several rounds: in each, every thread does a piece of work and waits for the others. Job follows job; a
/// job's time is its latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParallelSpec {
    /// Rounds of a job.
    pub rounds: u32,
    /// CPU time of one thread's piece.
    pub work: Service,
}

/// A parallel job under way.
#[derive(Clone, Debug)]
pub(crate) struct Parallel {
    rounds: u32,
    work: Service,
    round: u32,
    at_barrier: usize,
    began: u64,
}

impl Parallel {
    pub fn new(spec: &ParallelSpec, began: u64) -> Parallel {
        Parallel { rounds: spec.rounds, work: spec.work.clone(), round: 0, at_barrier: 0, began }
    }

    pub fn start(&mut self, own: &mut Common, kernel: &mut Kernel) {
        self.begin_round(own, kernel, None);
    }

    /// A thread has reached the barrier; the last one wakes the others.
    pub fn finished(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        let task = own.tasks[thread];
        kernel.block(task);
        self.at_barrier += 1;
        if self.at_barrier < own.tasks.len() {
            return;
        }
        (self.at_barrier, self.round) = (0, self.round + 1);
        if self.round == self.rounds {
            let now = kernel.now();
            let latency = now - std::mem::replace(&mut self.began, now);
            self.round = 0;
            own.stats.arrived += 1;
            own.record(latency);
        }
        self.begin_round(own, kernel, Some(task));
    }

    fn begin_round(&mut self, own: &mut Common, kernel: &mut Kernel, waker: Option<TaskId>) {
        let from = waker.and_then(|waker| kernel.last_cpu(waker));
        for &task in &own.tasks {
            let work = self.work.draw(&mut own.streams.services);
            match waker {
                Some(waker) => kernel.wake_by_from(task, work, waker, from),
                None => kernel.wake(task, work, None),
            }
        }
    }
}
