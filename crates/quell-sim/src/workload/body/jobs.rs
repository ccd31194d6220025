//! A job server: one thread that does the jobs of several sources, in an order (vas-rtns21 §6.1: "the server queues incoming
//! jobs, schedules them according to a work-conserving scheduling policy").
//!
//! A job that comes first by the order interrupts the one that is worked on. Threads with real-time priorities would be
//! something else: jobs of one source that overlap keep their order here, and one first come, first served is that of jobs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::service::Service;
use crate::workload::load::Common;

/// A server of jobs. Its latency is their response time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobsSpec {
    /// Which job is next.
    #[serde(default)]
    pub order: Order,
    /// Where jobs come from.
    pub source: Vec<JobSource>,
}

/// Which job is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The one that came first.
    #[default]
    Fifo,
    /// That of the source with the shortest period: rate-monotonic.
    Rm,
    /// The one with the earliest deadline, a period after its release.
    Edf,
}

/// A source of jobs, periodic or sporadic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSource {
    /// First release.
    #[serde(default)]
    pub offset: Nanos,
    /// CPU time of a job.
    pub work: Service,
    /// Distance of the releases.
    pub period: Nanos,
    /// A sporadic source: each release comes so much later than a period after the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later: Option<Service>,
}

impl JobsSpec {
    /// What cannot be simulated, and the fix.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.source.is_empty() {
            return Err("jobs of no source: give at least one".into());
        }
        for source in &self.source {
            source.work.check()?;
            source.later.iter().try_for_each(Service::check)?;
            if source.period.0 < 1_000 {
                return Err("a period shorter than a microsecond: make it longer".into());
            }
        }
        Ok(())
    }

    /// The share of a CPU that it asks for at most.
    pub(crate) fn load(&self) -> f64 {
        self.source.iter().map(|source| source.work.mean() / source.period.0 as f64).sum()
    }
}

/// A job that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Its source's place.
    pub source: u32,
    /// When it was released.
    pub released: Nanos,
    /// When it was done.
    pub done: Nanos,
}

/// A job; the least is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    /// By the order.
    key: u64,
    /// How many came before.
    number: u64,
    source: u32,
    released: u64,
    left: u64,
}

/// A job server under way.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    spec: JobsSpec,
    /// The next release of each source: time and place.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    waiting: BinaryHeap<Reverse<Job>>,
    current: Option<Job>,
    released: u64,
    /// The jobs that are done, if somebody wants to know them one by one.
    pub log: Option<Vec<Done>>,
}

impl Jobs {
    /// Jobs from this time on, ns.
    pub fn new(spec: &JobsSpec, began: u64) -> Jobs {
        let first = |(source, place): (&JobSource, u32)| Reverse((began + source.offset.0, place));
        let next = spec.source.iter().zip(0..).map(first).collect();
        Jobs { spec: spec.clone(), next, waiting: BinaryHeap::new(), current: None, released: 0, log: None }
    }

    pub fn set_timer(&self, own: &Common, kernel: &mut Kernel) {
        if let Some(&Reverse((at, _))) = self.next.peek() {
            kernel.timers.set(own.timer, at);
        }
    }

    /// Jobs are released.
    pub fn due(&mut self, own: &mut Common, kernel: &mut Kernel) {
        let now = kernel.now();
        while let Some(&Reverse((at, place))) = self.next.peek()
            && at <= now
        {
            self.next.pop();
            let source = &self.spec.source[place as usize];
            let later = source.later.as_ref().map_or(0, |later| later.draw(&mut own.streams.times));
            self.next.push(Reverse((at + source.period.0 + later, place)));
            let work = source.work.draw(&mut own.streams.services);
            let key = match self.spec.order {
                Order::Fifo => 0,
                Order::Rm => source.period.0,
                Order::Edf => at + source.period.0,
            };
            own.stats.arrived += 1;
            self.released += 1;
            self.take(own, kernel, Job { key, number: self.released, source: place, released: at, left: work });
        }
        self.set_timer(own, kernel);
    }

    fn take(&mut self, own: &Common, kernel: &mut Kernel, job: Job) {
        let task = own.tasks[0];
        let Some(mut before) = self.current else {
            self.current = Some(job);
            kernel.wake(task, job.left, kernel.last_cpu(task));
            return kernel.set_request(task, Some(job.released));
        };
        if job > before {
            return self.waiting.push(Reverse(job));
        }
        if kernel.is_runnable(task) {
            before.left = kernel.work_left(task);
            if before.left == 0 {
                // It is done at this very moment.
                return self.waiting.push(Reverse(job));
            }
            kernel.continue_with(task, job.left);
        } else {
            // The interrupt that reports the other job waits for its CPU: it reports this one, too.
            kernel.forget_missed(task);
            kernel.wake(task, job.left, kernel.last_cpu(task));
        }
        self.waiting.push(Reverse(before));
        self.current = Some(job);
        kernel.set_request(task, Some(job.released));
    }

    pub fn finished(&mut self, own: &mut Common, kernel: &mut Kernel) {
        let (now, task) = (kernel.now(), own.tasks[0]);
        if let Some(job) = self.current.take() {
            let latency = now - job.released;
            own.record(latency);
            own.stats.missed += u64::from(latency > self.spec.source[job.source as usize].period.0);
            if let Some(log) = &mut self.log {
                log.push(Done { source: job.source, released: Nanos(job.released), done: Nanos(now) });
            }
            kernel.set_request(task, None);
        }
        match self.waiting.pop() {
            Some(Reverse(job)) => {
                self.current = Some(job);
                kernel.continue_with(task, job.left);
                kernel.set_request(task, Some(job.released));
            }
            None => kernel.block(task),
        }
    }

    pub fn oldest_waiting(&self) -> Option<u64> {
        self.waiting.iter().map(|Reverse(job)| job.released).min()
    }
}
