//! Periodic and sporadic tasks.

use std::collections::VecDeque;

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use super::Request;
use crate::kernel::Kernel;
use crate::service::Service;
use crate::workload::load::Common;

/// A periodic or sporadic task in every thread. Its latency is its response time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodicSpec {
    /// Distance of the releases.
    pub period: Nanos,
    /// CPU time of a job.
    pub work: Service,
    /// First release; that of thread n is n times `stagger` later.
    #[serde(default)]
    pub offset: Nanos,
    /// See `offset`.
    #[serde(default)]
    pub stagger: Nanos,
    /// A sporadic task: each release comes so much later than a period after the one before.
    #[serde(default)]
    pub later: Option<Service>,
    /// Relative deadline; the period if it is left out.
    #[serde(default)]
    pub deadline: Option<Nanos>,
}

/// Periodic tasks under way.
#[derive(Clone, Debug)]
pub(crate) struct Periodic {
    spec: PeriodicSpec,
    /// By thread: jobs that wait for an earlier one.
    queues: Vec<VecDeque<Request>>,
    current: Vec<Option<Request>>,
}

impl Periodic {
    pub fn new(spec: &PeriodicSpec, threads: usize) -> Periodic {
        Periodic { spec: spec.clone(), queues: vec![VecDeque::new(); threads], current: vec![None; threads] }
    }

    pub fn start(&mut self, own: &Common, kernel: &mut Kernel) {
        for (thread, &task) in own.tasks.iter().enumerate() {
            let at = kernel.now() + self.spec.offset.0 + thread as u64 * self.spec.stagger.0;
            let timer = kernel.task(task).timer;
            kernel.timers.set(timer, at);
        }
    }

    /// Jobs are of this part (0–1) of a period from now on.
    pub fn set_demand(&mut self, demand: f64) {
        self.spec.work = Service::Constant(self.spec.period.scaled(demand).max(Nanos(1)));
    }

    /// Another thread is there, the last one: its first job is released now.
    pub fn add_thread(&mut self, own: &mut Common, kernel: &mut Kernel) {
        self.queues.push(VecDeque::new());
        self.current.push(None);
        self.release(own, kernel, self.current.len() - 1);
    }

    /// The last thread goes, with its jobs.
    pub fn end_thread(&mut self) {
        self.queues.pop();
        self.current.pop();
    }

    pub fn release(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        let (now, task) = (kernel.now(), own.tasks[thread]);
        let timer = kernel.task(task).timer;
        let later = self.spec.later.as_ref().map_or(0, |later| later.draw(&mut own.streams.times));
        kernel.timers.set(timer, now + self.spec.period.0 + later);
        own.stats.arrived += 1;
        let work = self.spec.work.draw(&mut own.streams.services);
        let job = Request { arrived: now, work, rest: 0, client: 0 };
        if self.current[thread].is_some() {
            return self.queues[thread].push_back(job);
        }
        self.current[thread] = Some(job);
        kernel.wake(task, work, kernel.last_cpu(task));
        kernel.set_request(task, Some(now));
    }

    pub fn finished(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        let (now, task) = (kernel.now(), own.tasks[thread]);
        if let Some(job) = self.current[thread].take() {
            let latency = now - job.arrived;
            own.record(latency);
            own.stats.missed += u64::from(latency > self.spec.deadline.unwrap_or(self.spec.period).0);
            kernel.set_request(task, None);
        }
        match self.queues[thread].pop_front() {
            Some(job) => {
                self.current[thread] = Some(job);
                kernel.continue_with(task, job.work);
                kernel.set_request(task, Some(now));
            }
            None => kernel.block(task),
        }
    }

    pub fn oldest_waiting(&self) -> Option<u64> {
        self.queues.iter().filter_map(|queue| queue.front()).map(|job| job.arrived).min()
    }
}
