//! What a playing thread does, one file a kind.

mod batch;
mod jobs;
mod periodic;
mod server;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quell_model::Nanos;
use quell_report::stats::Histogram;
use quell_sim::WorkloadSpec;
use quell_sim::workload::Draws;

use crate::course::Course;
use crate::pace::Pace;

/// What a workload's threads share.
pub struct Shared {
    pub draws: Draws,
    /// Requests and jobs that count.
    pub arrived: u64,
    /// By thread: requests that are for it and that another thread drew: arrival, since the start, and work.
    pub queues: Vec<VecDeque<(Nanos, Nanos)>>,
}

impl Shared {
    pub fn new(draws: Draws, threads: u32) -> Shared {
        Shared { draws, arrived: 0, queues: vec![VecDeque::new(); threads as usize] }
    }
}

/// One thread's part.
pub struct Body<'a> {
    pub spec: &'a WorkloadSpec,
    pub thread: u32,
    pub shared: &'a Mutex<Shared>,
    pub course: Course,
    pub pace: Pace,
}

impl Body<'_> {
    /// Works until the course ends; the latencies of what it did.
    pub fn run(&self) -> Histogram {
        if let Some(server) = &self.spec.server {
            self.serve(server)
        } else if let Some(periodic) = &self.spec.periodic {
            self.repeat(periodic)
        } else if let Some(jobs) = &self.spec.jobs {
            self.do_jobs(jobs)
        } else {
            self.toil(self.spec.batch.as_ref());
            Histogram::default()
        }
    }

    /// A thread that panicked has left the numbers as they are.
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, arrived: Nanos) {
        if self.course.counts(arrived) {
            self.shared().arrived += 1;
        }
    }
}
