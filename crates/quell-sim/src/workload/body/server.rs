//! Servers whose threads are the kernel's: a pool with one queue, or a queue for each thread.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Request, Runtime, Source};
use crate::arrivals::Arrivals;
use crate::kernel::{Kernel, TaskId};
use crate::service::Service;
use crate::workload::load::Common;

/// How requests find a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dispatch {
    /// One queue for all threads: the last one that became idle takes the next request.
    #[default]
    Pool,
    /// Each thread has its own connections, and so its own queue. A closed loop's clients have a connection each, dealt
    /// out in turn; an open loop's requests are spread at random.
    PerThread,
    /// Requests are green threads of a work-stealing runtime.
    WorkStealing(Runtime),
}

impl Dispatch {
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Dispatch::WorkStealing(runtime) => runtime.check(),
            _ => Ok(()),
        }
    }
}

/// An open loop: requests arrive whether or not earlier ones are done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// CPU time of a request.
    pub service: Service,
    /// How requests find a thread.
    #[serde(default)]
    pub dispatch: Dispatch,
}

/// A closed loop: every client waits for its answer, thinks, and asks again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedSpec {
    /// Number of clients.
    pub clients: u32,
    /// Time between an answer and the next request.
    pub think: Service,
    /// Requests per second of all clients together, as far as their answers allow: each keeps to a timetable, and is
    /// late when an answer is, until it has caught up (as YCSB does with `-target`). None: as fast as they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<f64>,
    /// CPU time of a request.
    pub service: Service,
    /// How requests find a thread.
    #[serde(default)]
    pub dispatch: Dispatch,
}

/// A server under way.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub source: Source,
    service: Service,
    is_pool: bool,
    /// One queue for a pool, else one a thread.
    queues: Vec<VecDeque<Request>>,
    /// Idle threads of a pool.
    idle: Vec<usize>,
    /// What each thread works on.
    current: Vec<Option<Request>>,
}

impl Server {
    pub fn new(source: Source, service: Service, dispatch: Dispatch, threads: usize) -> Server {
        let is_pool = dispatch == Dispatch::Pool;
        Server {
            source,
            service,
            is_pool,
            queues: vec![VecDeque::new(); if is_pool { 1 } else { threads }],
            idle: (0..threads).rev().collect(),
            current: vec![None; threads],
        }
    }

    #[inline]
    pub fn due(&mut self, own: &mut Common, kernel: &mut Kernel) {
        let client = self.source.take(own.timer, kernel);
        self.arrive(own, kernel, client);
    }

    /// A request of a client's arrives.
    #[inline]
    pub fn arrive(&mut self, own: &mut Common, kernel: &mut Kernel, client: u32) {
        own.stats.arrived += 1;
        let work = self.service.draw(&mut own.streams.services);
        self.hand_out(own, kernel, Request { arrived: self.source.came(kernel.now()), work, rest: 0, client });
    }

    #[inline]
    fn hand_out(&mut self, own: &mut Common, kernel: &mut Kernel, request: Request) {
        let client = request.client;
        let free = match &self.source {
            _ if self.is_pool => self.idle.pop(),
            Source::Open(_) => Some(own.streams.choices.below(own.tasks.len() as u32) as usize),
            Source::Closed { .. } => Some(client as usize % own.tasks.len()),
        };
        let Some(thread) = free else { return self.queues[0].push_back(request) };
        let waker = kernel.interrupted(own.tasks[thread], &mut own.streams.interrupts);
        if self.current[thread].is_some() {
            return self.queues[thread].push_back(request);
        }
        self.current[thread] = Some(request);
        kernel.wake(own.tasks[thread], request.work, waker);
        kernel.set_request(own.tasks[thread], Some(kernel.now()));
    }

    #[inline]
    pub fn finished(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        let task = own.tasks[thread];
        if let Some(request) = self.current[thread].take() {
            own.record(kernel.now() - request.arrived);
            kernel.set_request(task, None);
            self.source.answer(request.client, &mut own.streams.choices, own.timer, kernel);
        }
        let queue = if self.is_pool { 0 } else { thread };
        match self.queues[queue].pop_front() {
            Some(request) => {
                self.current[thread] = Some(request);
                kernel.continue_with(task, request.work);
                kernel.set_request(task, Some(kernel.now()));
            }
            None => {
                if self.is_pool {
                    self.idle.push(thread);
                }
                kernel.block(task);
            }
        }
    }

    /// CPU time of a request on average, ns.
    pub fn mean_service(&self) -> f64 {
        self.service.mean()
    }

    /// Another thread is there, the last one.
    pub fn add_thread(&mut self, own: &mut Common, kernel: &mut Kernel) {
        let thread = self.current.len();
        self.current.push(None);
        if !self.is_pool {
            return self.queues.push(VecDeque::new());
        }
        self.idle.push(thread);
        if let Some(request) = self.queues[0].pop_front() {
            self.hand_out(own, kernel, request);
        }
    }

    /// The last thread goes; what it had to do others do.
    pub fn end_thread(&mut self, own: &mut Common, kernel: &mut Kernel, task: TaskId) {
        let left = kernel.work_left(task).max(1);
        let thread = self.current.len() - 1;
        let current = self.current.pop().flatten().map(|request| Request { work: left, ..request });
        self.idle.retain(|&idle| idle != thread);
        let queued = if self.is_pool { VecDeque::new() } else { self.queues.pop().unwrap_or_default() };
        for request in current.into_iter().chain(queued) {
            self.hand_out(own, kernel, request);
        }
    }

    pub fn oldest_waiting(&self) -> Option<u64> {
        self.queues.iter().filter_map(|queue| queue.front()).map(|request| request.arrived).min()
    }
}
