//! A workload under way: its threads, its queues, and what they do next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use quell_model::Nanos;

use super::arrivals::ArrivalProcess;
use super::spec::{ClosedSpec, Dispatch, ParallelSpec, PeriodicSpec, Phases, WorkloadSpec};
use super::{Service, WorkloadStats};
use crate::kernel::{ENDLESS, Kernel, TaskId, Timer};
use crate::random::Stream;
use crate::timers::TimerId;

/// Random streams of a workload.
const STREAMS: u64 = 4;

/// Something to do, and for whom.
#[derive(Clone, Copy, Debug)]
struct Request {
    arrived: u64,
    work: u64,
    client: u32,
}

/// What the threads do.
#[derive(Clone, Debug)]
enum Body {
    Open(Box<ArrivalProcess>),
    Closed { clients: BinaryHeap<Reverse<(u64, u32)>>, think: Service },
    Batch { phases: Option<Phases>, is_busy: bool },
    Parallel { rounds: u32, round: u32, at_barrier: u32, began: u64 },
    Periodic(PeriodicSpec),
}

/// A workload under way.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub tasks: Vec<TaskId>,
    pub stats: WorkloadStats,
    body: Body,
    service: Service,
    dispatch: Dispatch,
    services: Stream,
    choices: Stream,
    interrupts: Stream,
    timer: TimerId,
    /// One queue for a pool, else one a thread.
    queues: Vec<VecDeque<Request>>,
    /// Idle threads of a pool.
    idle: Vec<usize>,
    /// What each thread works on.
    current: Vec<Option<Request>>,
    bound: Option<Nanos>,
}

impl Load {
    /// A workload whose threads exist and sleep. Its random streams are its own, whatever else runs.
    pub fn new(spec: &WorkloadSpec, number: u64, seed: u64, tasks: Vec<TaskId>, kernel: &mut Kernel) -> Load {
        let stream = |purpose: u64| Stream::new(seed, number * STREAMS + purpose);
        let threads = tasks.len();
        let mut dispatch = Dispatch::PerThread;
        let mut service = Service::Constant(Nanos(1));
        let body = if let Some(server) = &spec.server {
            (dispatch, service) = (server.dispatch, server.service.clone());
            Body::Open(Box::new(ArrivalProcess::new(server.arrivals.clone(), stream(0))))
        } else if let Some(ClosedSpec { clients, think, service: work, dispatch: how }) = &spec.closed {
            (dispatch, service) = (*how, work.clone());
            let mut times = stream(0);
            let first = (0..*clients).map(|client| Reverse((think.draw(&mut times), client))).collect();
            Body::Closed { clients: first, think: think.clone() }
        } else if let Some(ParallelSpec { rounds, work }) = &spec.parallel {
            service = work.clone();
            Body::Parallel { rounds: *rounds, round: 0, at_barrier: 0, began: 0 }
        } else if let Some(periodic) = &spec.periodic {
            service = periodic.work.clone();
            Body::Periodic(periodic.clone())
        } else {
            Body::Batch { phases: spec.batch.and_then(|batch| batch.phases), is_busy: false }
        };
        let queues = if dispatch == Dispatch::Pool { 1 } else { threads };
        Load {
            stats: WorkloadStats::default(),
            body,
            service,
            dispatch,
            services: stream(1),
            choices: stream(2),
            interrupts: stream(3),
            timer: kernel.timers.add(Timer::Workload(number as u32)),
            queues: vec![VecDeque::new(); queues],
            idle: (0..threads).rev().collect(),
            current: vec![None; threads],
            bound: spec.slo.map(|slo| slo.bound),
            tasks,
        }
    }

    /// The start of time: the first arrivals are set, batch work begins.
    pub fn start(&mut self, kernel: &mut Kernel) {
        match &mut self.body {
            Body::Open(arrivals) => {
                if let Some(at) = arrivals.next() {
                    kernel.timers.set(self.timer, at);
                }
            }
            Body::Closed { clients, .. } => {
                if let Some(Reverse((at, _))) = clients.peek() {
                    kernel.timers.set(self.timer, *at);
                }
            }
            Body::Batch { phases: Some(phases), .. } => kernel.timers.set(self.timer, phases.quiet.0),
            Body::Batch { is_busy, .. } => {
                *is_busy = true;
                self.tasks.iter().for_each(|&task| kernel.wake(task, ENDLESS, None));
            }
            Body::Parallel { .. } => self.begin_round(kernel, None),
            Body::Periodic(periodic) => {
                for (thread, &task) in self.tasks.iter().enumerate() {
                    let at = periodic.offset.0 + thread as u64 * periodic.stagger.0;
                    let timer = kernel.task(task).timer;
                    kernel.timers.set(timer, at);
                }
            }
        }
    }

    /// The workload's timer: a request arrives, a client has thought enough, a phase ends.
    pub fn due(&mut self, kernel: &mut Kernel) {
        let now = kernel.now();
        match &mut self.body {
            Body::Open(arrivals) => {
                if let Some(at) = arrivals.next() {
                    kernel.timers.set(self.timer, at.max(now));
                }
                self.arrive(kernel, 0);
            }
            Body::Closed { clients, .. } => {
                let client = clients.pop().map_or(0, |Reverse((_, client))| client);
                if let Some(Reverse((at, _))) = clients.peek() {
                    kernel.timers.set(self.timer, *at);
                }
                self.arrive(kernel, client);
            }
            Body::Batch { phases: Some(phases), is_busy } => {
                *is_busy = !*is_busy;
                kernel.timers.set(self.timer, now + if *is_busy { phases.busy.0 } else { phases.quiet.0 });
                for &task in &self.tasks {
                    if *is_busy { kernel.wake(task, ENDLESS, None) } else { kernel.block(task) }
                }
            }
            _ => {}
        }
    }

    /// A thread's timer: its next job is released.
    pub fn release(&mut self, kernel: &mut Kernel, thread: usize) {
        let Body::Periodic(periodic) = &self.body else { return };
        let now = kernel.now();
        let timer = kernel.task(self.tasks[thread]).timer;
        kernel.timers.set(timer, now + periodic.period.0);
        self.stats.arrived += 1;
        let work = self.service.draw(&mut self.services);
        let waker = kernel.last_cpu(self.tasks[thread]);
        self.give(kernel, thread, Request { arrived: now, work, client: 0 }, waker);
    }

    fn arrive(&mut self, kernel: &mut Kernel, client: u32) {
        self.stats.arrived += 1;
        let work = self.service.draw(&mut self.services);
        let request = Request { arrived: kernel.now(), work, client };
        match self.dispatch {
            Dispatch::Pool => match self.idle.pop() {
                Some(thread) => {
                    let waker = kernel.interrupted(self.tasks[thread], &mut self.interrupts);
                    self.begin(kernel, thread, request, waker);
                }
                None => self.queues[0].push_back(request),
            },
            Dispatch::PerThread => {
                let thread = self.choices.below(self.tasks.len() as u32) as usize;
                let waker = kernel.interrupted(self.tasks[thread], &mut self.interrupts);
                self.give(kernel, thread, request, waker);
            }
        }
    }

    fn give(&mut self, kernel: &mut Kernel, thread: usize, request: Request, waker: Option<usize>) {
        if self.current[thread].is_some() {
            self.queues[thread].push_back(request);
        } else {
            self.begin(kernel, thread, request, waker);
        }
    }

    fn begin(&mut self, kernel: &mut Kernel, thread: usize, request: Request, waker: Option<usize>) {
        self.current[thread] = Some(request);
        let task = self.tasks[thread];
        kernel.wake(task, request.work, waker);
        kernel.set_request(task, Some(kernel.now()));
    }

    /// A thread has done its work: what it did is recorded, and it goes on or blocks.
    pub fn finished(&mut self, kernel: &mut Kernel, thread: usize, cpu: usize) {
        let task = self.tasks[thread];
        if let Some(request) = self.current[thread].take() {
            self.record(kernel.now() - request.arrived);
            kernel.set_request(task, None);
            self.answer(kernel, request.client);
        }
        if let Body::Parallel { .. } = self.body {
            kernel.block(task);
            return self.reach_barrier(kernel, cpu);
        }
        let queue = if self.dispatch == Dispatch::Pool { 0 } else { thread };
        match self.queues[queue].pop_front() {
            Some(request) => {
                self.current[thread] = Some(request);
                kernel.continue_with(task, request.work);
                kernel.set_request(task, Some(kernel.now()));
            }
            None => {
                if self.dispatch == Dispatch::Pool {
                    self.idle.push(thread);
                }
                kernel.block(task);
            }
        }
    }

    fn record(&mut self, latency: u64) {
        self.stats.latencies.record(latency);
        self.stats.violations += u64::from(self.bound.is_some_and(|bound| latency > bound.0));
        if let Body::Periodic(periodic) = &self.body {
            self.stats.missed += u64::from(latency > periodic.deadline.unwrap_or(periodic.period).0);
        }
    }

    fn answer(&mut self, kernel: &mut Kernel, client: u32) {
        let Body::Closed { clients, think } = &mut self.body else { return };
        clients.push(Reverse((kernel.now() + think.draw(&mut self.choices), client)));
        if let Some(Reverse((at, _))) = clients.peek() {
            kernel.timers.set(self.timer, *at);
        }
    }

    fn begin_round(&mut self, kernel: &mut Kernel, waker: Option<usize>) {
        for thread in 0..self.tasks.len() {
            let work = self.service.draw(&mut self.services);
            kernel.wake(self.tasks[thread], work, waker);
        }
    }

    fn reach_barrier(&mut self, kernel: &mut Kernel, cpu: usize) {
        let threads = self.tasks.len() as u32;
        let now = kernel.now();
        let Body::Parallel { rounds, round, at_barrier, began } = &mut self.body else { return };
        *at_barrier += 1;
        if *at_barrier < threads {
            return;
        }
        (*at_barrier, *round) = (0, *round + 1);
        if *round == *rounds {
            let latency = now - std::mem::replace(began, now);
            *round = 0;
            self.stats.arrived += 1;
            self.record(latency);
        }
        self.begin_round(kernel, Some(cpu));
    }

    /// How long its oldest request has waited for a thread, or its oldest runnable thread for a CPU.
    pub fn queueing_delay(&self, kernel: &Kernel, number: usize) -> Nanos {
        let now = kernel.now();
        let requests = self.queues.iter().filter_map(|queue| queue.front()).map(|request| now - request.arrived);
        let oldest = requests.max().unwrap_or(0);
        let threads = if kernel.grants.is_on {
            kernel.grants.oldest(number).map(|task| now - kernel.task(task).runnable_since)
        } else {
            self.tasks.iter().filter_map(|&task| kernel.waits_since(task)).map(|since| now - since).max()
        };
        Nanos(oldest.max(threads.unwrap_or(0)))
    }

    /// The warm-up is over: what was counted is forgotten, with what the threads have used so far.
    pub fn forget(&mut self, kernel: &Kernel) {
        self.stats.latencies.clear();
        (self.stats.arrived, self.stats.violations, self.stats.missed) = (0, 0, 0);
        self.stats.run_time = self.tasks.iter().map(|&task| kernel.run_time(task)).sum();
        self.stats.run_delay = self.tasks.iter().map(|&task| kernel.run_delay(task)).sum();
    }

    /// What it achieved since the warm-up.
    pub fn stats(&self, kernel: &Kernel) -> WorkloadStats {
        let mut stats = self.stats.clone();
        stats.run_time = self.tasks.iter().map(|&task| kernel.run_time(task)).sum::<u64>() - self.stats.run_time;
        stats.run_delay = self.tasks.iter().map(|&task| kernel.run_delay(task)).sum::<u64>() - self.stats.run_delay;
        stats
    }
}
