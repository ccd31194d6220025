//! What a playing thread does, one file a kind.

mod batch;
mod clients;
mod forks;
mod jobs;
mod parallel;
mod periodic;
mod server;
mod stages;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quell_model::Nanos;
use quell_report::stats::Histogram;
use quell_sim::WorkloadSpec;
use quell_sim::workload::Draws;

use crate::course::Course;
use crate::ended::Ended;
use crate::pace::Pace;
use crate::requests::Requests;

use clients::Clients;
pub use parallel::Barrier;

/// What a workload's threads share.
pub struct Shared {
    pub draws: Draws,
    /// Requests and jobs that count.
    pub arrived: u64,
    /// By thread: requests that are for it and that another thread drew: arrival, since the start, and work.
    pub queues: Vec<VecDeque<(Nanos, Nanos)>>,
    /// Those of a closed loop.
    clients: Option<Clients>,
}

impl Shared {
    pub fn new(mut draws: Draws, spec: &WorkloadSpec, begin: Nanos) -> Shared {
        let clients = spec.closed.as_ref().map(|closed| Clients::new(closed, &mut draws, spec.threads, begin));
        Shared { draws, arrived: 0, queues: vec![VecDeque::new(); spec.threads as usize], clients }
    }
}

/// One thread's part.
pub struct Body<'a> {
    pub spec: &'a WorkloadSpec,
    pub thread: u32,
    pub shared: &'a Mutex<Shared>,
    pub barrier: &'a Barrier,
    pub requests: Option<&'a Requests>,
    pub ended: &'a Arc<Ended>,
    pub course: Course,
    pub pace: Pace,
}

impl Body<'_> {
    /// Works until the course ends; the latencies of what it did.
    pub fn run(&self) -> Histogram {
        if let Some(server) = &self.spec.server {
            self.serve(server)
        } else if let Some(closed) = &self.spec.closed {
            self.answer(closed)
        } else if let Some(parallel) = &self.spec.parallel {
            self.meet(parallel)
        } else if let Some(periodic) = &self.spec.periodic {
            self.repeat(periodic)
        } else if let Some(jobs) = &self.spec.jobs {
            self.do_jobs(jobs)
        } else if let Some(forks) = &self.spec.forks {
            self.start_threads(forks)
        } else if let Some(requests) = self.requests {
            self.do_stages(requests)
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
