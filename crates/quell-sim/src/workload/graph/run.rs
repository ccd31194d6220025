//! Requests under way: who does which stage, and who waits for what.

use std::collections::VecDeque;

use quell_model::Nanos;

use super::super::body::Source;
use super::super::load::{Load, Streams};
use super::plan::{Act, Flags, Plan, Plans};
use crate::gpu::{Gpu, GpuWork};
use crate::kernel::{Kernel, TaskId, Timer};
use crate::lock::{Lock, Next};
use crate::timers::TimerId;

/// Requests' random streams have numbers that no workload has.
pub(crate) const FIRST_STREAM: u64 = 1 << 32;
/// What a woken thread needs before its next step, ns: it has to have had a CPU.
const BEGIN: u64 = 1;

/// One request under way.
#[derive(Clone, Debug, Default)]
struct Job {
    plan: usize,
    arrived: u64,
    client: u32,
    /// What has ended and was given.
    raised: Flags,
    stages_left: usize,
    /// By piece of work: CPU time, ns.
    works: Vec<u64>,
    /// By barrier: how many have come.
    came: Vec<u32>,
    /// Threads that wait for a signal, a stage's end or a barrier.
    waiting: Vec<usize>,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing, or it sleeps: in a line for a lock, for a signal, at a barrier.
    Sleeps,
    /// Was woken; when it runs it goes on with its step.
    Begins,
    Works,
    Holds(usize),
}

/// One thread.
#[derive(Clone, Copy, Debug)]
struct Worker {
    task: TaskId,
    pool: usize,
    doing: Doing,
    /// Its job, and the stage and step there.
    at: Option<(usize, usize, usize)>,
}

/// A pool's threads and stages.
#[derive(Clone, Debug)]
struct Pool {
    workload: usize,
    idle: Vec<usize>,
    /// Job, stage, and since when.
    queue: VecDeque<(usize, usize, u64)>,
}

/// A kind of request: where they come from.
#[derive(Clone, Debug)]
struct Flow {
    source: Source,
    streams: Streams,
    timer: TimerId,
    under_way: u32,
    /// Those who wait until fewer are under way.
    outside: VecDeque<usize>,
}

/// Who wakes a thread.
#[derive(Clone, Copy, Debug)]
enum Waker {
    Thread(TaskId),
    /// An interrupt on this CPU, or something outside.
    Interrupt(Option<usize>),
}

/// All requests, and the threads that serve them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graphs {
    plans: Vec<Plan>,
    flows: Vec<Flow>,
    pools: Vec<Pool>,
    locks: Vec<Lock>,
    workers: Vec<Worker>,
    /// By workload: its first thread's place among the workers.
    first_worker: Vec<usize>,
    jobs: Vec<Job>,
    free_jobs: Vec<usize>,
    /// The machine's GPU, if it has one.
    pub gpu: Option<Gpu>,
}

impl Graphs {
    /// The threads of the loads' pools, asleep. `timer` adds one to the kernel that a workload runs on.
    pub fn new(plans: Plans, seed: u64, loads: &[Load], mut timer: impl FnMut(usize, Timer) -> TimerId) -> Graphs {
        let mut graphs = Graphs { first_worker: vec![usize::MAX; loads.len()], ..Graphs::default() };
        for (number, pool) in plans.pools.iter().enumerate() {
            let first = graphs.workers.len();
            if pool.threads.start == 0 {
                graphs.first_worker[pool.workload] = first;
            }
            let tasks = &loads[pool.workload].tasks()[pool.threads.clone()];
            let worker = |&task| Worker { task, pool: number, doing: Doing::Sleeps, at: None };
            graphs.workers.extend(tasks.iter().map(worker));
            let idle = (first..graphs.workers.len()).rev().collect();
            graphs.pools.push(Pool { workload: pool.workload, idle, queue: VecDeque::new() });
        }
        for (number, plan) in plans.requests.iter().enumerate() {
            let mut streams = Streams::new(seed, FIRST_STREAM + number as u64);
            let source = match (&plan.arrivals, &plan.clients) {
                (Some(arrivals), _) => Source::open(arrivals, &streams, 0),
                (None, Some((number, think))) => Source::closed(*number, think, None, &mut streams, 0),
                (None, None) => continue,
            };
            let timer = timer(plan.receiver, Timer::Request(number as u32));
            graphs.flows.push(Flow { source, streams, timer, under_way: 0, outside: VecDeque::new() });
        }
        graphs.locks = plans.locks.iter().map(|&(_, order)| Lock::new(order)).collect();
        graphs.plans = plans.requests;
        graphs
    }

    /// By kind of request: the workload that receives it.
    pub fn receivers(&self) -> Vec<usize> {
        self.plans.iter().map(|plan| plan.receiver).collect()
    }

    /// The start of time: the first arrival of a kind is set, in the kernel that its receiver runs on.
    pub fn start(&mut self, kind: usize, kernel: &mut Kernel) {
        let flow = &mut self.flows[kind];
        flow.source.set_timer(flow.timer, kernel);
    }

    /// A request of this kind arrives.
    pub fn due(&mut self, kernel: &mut Kernel, loads: &mut [Load], kind: usize) {
        let (plan, flow) = (&self.plans[kind], &mut self.flows[kind]);
        let client = flow.source.take(flow.timer, kernel);
        loads[plan.receiver].common.stats.arrived += 1;
        let number = self.free_jobs.pop().unwrap_or(self.jobs.len());
        if number == self.jobs.len() {
            self.jobs.push(Job::default());
        }
        let job = &mut self.jobs[number];
        (job.plan, job.arrived, job.client) = (kind, kernel.now(), client);
        (job.raised, job.stages_left) = (0, plan.stages.len());
        job.works.clear();
        job.works.extend(plan.works.iter().map(|work| work.draw(&mut flow.streams.services)));
        job.came.clear();
        job.came.resize(plan.barriers.len(), 0);
        if plan.at_most.is_some_and(|most| flow.under_way >= most) {
            return flow.outside.push_back(number);
        }
        flow.under_way += 1;
        let pool = &self.pools[plan.stages[plan.first].pool];
        let waker = pool.idle.last().and_then(|&worker| {
            let task = self.workers[worker].task;
            kernel.interrupted(task, &mut flow.streams.interrupts)
        });
        self.make_ready(kernel, number, plan.first, Waker::Interrupt(waker));
    }

    /// A thread has done its work.
    pub fn finished(&mut self, kernel: &mut Kernel, loads: &mut [Load], workload: usize, thread: usize) {
        let number = self.first_worker[workload] + thread;
        match self.workers[number].doing {
            Doing::Holds(lock) => {
                self.pass(number);
                self.release(kernel, number, lock);
            }
            Doing::Works => self.pass(number),
            Doing::Begins | Doing::Sleeps => {}
        }
        self.go_on(kernel, loads, number);
    }

    /// The GPU may have done a piece of work: its thread goes on.
    pub fn gpu_finished(&mut self, kernel: &mut Kernel) {
        let now = kernel.now();
        let Some(done) = self.gpu.as_mut().and_then(|gpu| gpu.finish(now, &mut kernel.timers)) else { return };
        self.pass(done.worker);
        let cpu = kernel.last_cpu(self.workers[done.worker].task);
        self.wake(kernel, done.worker, Waker::Interrupt(cpu));
    }

    /// The step is done.
    fn pass(&mut self, number: usize) {
        if let Some((_, _, step)) = &mut self.workers[number].at {
            *step += 1;
        }
    }

    fn act(&self, number: usize) -> Option<Act> {
        let (job, stage, step) = self.workers[number].at?;
        self.plans[self.jobs[job].plan].stages[stage].steps.get(step).copied()
    }

    /// A running thread goes through its steps until one takes time or it has to sleep.
    fn go_on(&mut self, kernel: &mut Kernel, loads: &mut [Load], number: usize) {
        let task = self.workers[number].task;
        while let Some((job, stage, _)) = self.workers[number].at {
            match self.act(number) {
                Some(Act::Work(piece)) => return self.work(kernel, number, piece, Doing::Works),
                Some(Act::Locked(piece, lock)) => {
                    if !self.locks[lock].take(number) {
                        return self.sleep(kernel, number);
                    }
                    return self.work(kernel, number, piece, Doing::Holds(lock));
                }
                Some(Act::Gpu(piece)) => {
                    let (time, plan) = (self.jobs[job].works[piece], &self.plans[self.jobs[job].plan]);
                    let work = GpuWork { worker: number, time, bytes_per_ns: plan.moves[piece] };
                    self.gpu.iter_mut().for_each(|gpu| gpu.submit(work, kernel.now(), &mut kernel.timers));
                    return self.sleep(kernel, number);
                }
                Some(Act::Signal(flag)) => self.raise(kernel, job, flag, task),
                Some(Act::Wait(flags)) if flags & !self.jobs[job].raised != 0 => {
                    self.jobs[job].waiting.push(number);
                    return self.sleep(kernel, number);
                }
                Some(Act::Wait(_)) => {}
                Some(Act::Barrier(barrier)) => {
                    self.jobs[job].came[barrier] += 1;
                    if self.jobs[job].came[barrier] < self.plans[self.jobs[job].plan].barriers[barrier] {
                        self.jobs[job].waiting.push(number);
                        return self.sleep(kernel, number);
                    }
                    self.wake_waiting(kernel, job, task, |act, _| act == Act::Barrier(barrier));
                }
                None => {
                    self.end_stage(kernel, loads, number, job, stage);
                    continue;
                }
            }
            self.pass(number);
        }
        self.pools[self.workers[number].pool].idle.push(number);
        self.sleep(kernel, number);
    }

    /// A running thread begins a piece of work.
    fn work(&mut self, kernel: &mut Kernel, number: usize, piece: usize, doing: Doing) {
        let Some((job, ..)) = self.workers[number].at else { return };
        self.workers[number].doing = doing;
        kernel.continue_with(self.workers[number].task, self.jobs[job].works[piece]);
    }

    fn sleep(&mut self, kernel: &mut Kernel, number: usize) {
        self.workers[number].doing = Doing::Sleeps;
        kernel.block(self.workers[number].task);
    }

    /// A sleeping thread wakes up and goes on with its step.
    fn wake(&mut self, kernel: &mut Kernel, number: usize, waker: Waker) {
        let (job, held) = match (self.workers[number].at, self.workers[number].doing) {
            (Some((job, ..)), Doing::Holds(lock)) => (job, Some(lock)),
            (Some((job, ..)), _) => (job, None),
            (None, _) => return,
        };
        let (work, doing) = match (self.act(number), held) {
            (Some(Act::Work(piece)), _) => (self.jobs[job].works[piece], Doing::Works),
            (Some(Act::Locked(piece, _)), Some(lock)) => (self.jobs[job].works[piece], Doing::Holds(lock)),
            _ => (BEGIN, Doing::Begins),
        };
        self.workers[number].doing = doing;
        match waker {
            Waker::Thread(waker) => kernel.wake_by(self.workers[number].task, work, waker),
            Waker::Interrupt(cpu) => kernel.wake(self.workers[number].task, work, cpu),
        }
    }

    fn release(&mut self, kernel: &mut Kernel, number: usize, lock: usize) {
        let waker = Waker::Thread(self.workers[number].task);
        match self.locks[lock].release() {
            Next::NoOne => {}
            Next::Has(next) => {
                self.workers[next].doing = Doing::Holds(lock);
                self.wake(kernel, next, waker);
            }
            Next::MayTry(next) => self.wake(kernel, next, waker),
        }
    }

    /// A stage has ended, or a signal was given: stages begin, and threads go on that waited for it.
    fn raise(&mut self, kernel: &mut Kernel, job: usize, flag: usize, by: TaskId) {
        self.jobs[job].raised |= 1 << flag;
        let (raised, kind) = (self.jobs[job].raised, self.jobs[job].plan);
        self.wake_waiting(kernel, job, by, |act, raised| matches!(act, Act::Wait(flags) if flags & !raised == 0));
        for at in 0..self.plans[kind].starts[flag].len() {
            let stage = self.plans[kind].starts[flag][at];
            if self.plans[kind].stages[stage].after & !raised == 0 {
                self.make_ready(kernel, job, stage, Waker::Thread(by));
            }
        }
    }

    /// Wakes those who wait in a job at such a step; they are done with it.
    fn wake_waiting(&mut self, kernel: &mut Kernel, job: usize, by: TaskId, ready: impl Fn(Act, Flags) -> bool) {
        let mut at = 0;
        while let Some(&number) = self.jobs[job].waiting.get(at) {
            if !self.act(number).is_some_and(|act| ready(act, self.jobs[job].raised)) {
                at += 1;
                continue;
            }
            self.jobs[job].waiting.remove(at);
            self.pass(number);
            self.wake(kernel, number, Waker::Thread(by));
        }
    }

    /// An idle thread of its pool begins the stage, or the next one that has nothing else to do.
    fn make_ready(&mut self, kernel: &mut Kernel, job: usize, stage: usize, waker: Waker) {
        let pool = &mut self.pools[self.plans[self.jobs[job].plan].stages[stage].pool];
        let Some(number) = pool.idle.pop() else { return pool.queue.push_back((job, stage, kernel.now())) };
        self.workers[number].at = Some((job, stage, 0));
        self.take_phase(kernel, number);
        self.wake(kernel, number, waker);
        kernel.set_request(self.workers[number].task, Some(kernel.now()));
    }

    /// The thread does what its stage does.
    fn take_phase(&self, kernel: &mut Kernel, number: usize) {
        if let Some((job, stage, _)) = self.workers[number].at {
            kernel.set_phase(self.workers[number].task, self.plans[self.jobs[job].plan].stages[stage].phase);
        }
    }

    /// The thread is through with its stage, and takes the next one of its pool.
    fn end_stage(&mut self, kernel: &mut Kernel, loads: &mut [Load], number: usize, job: usize, stage: usize) {
        let task = self.workers[number].task;
        kernel.set_request(task, None);
        self.raise(kernel, job, stage, task);
        self.jobs[job].stages_left -= 1;
        if self.jobs[job].stages_left == 0 {
            self.end_job(kernel, loads, job, task);
        }
        let next = self.pools[self.workers[number].pool].queue.pop_front();
        self.workers[number].at = next.map(|(job, stage, _)| (job, stage, 0));
        self.take_phase(kernel, number);
        if next.is_some() {
            kernel.set_request(task, Some(kernel.now()));
        }
    }

    fn end_job(&mut self, kernel: &mut Kernel, loads: &mut [Load], number: usize, by: TaskId) {
        let job = &self.jobs[number];
        let (kind, client) = (job.plan, job.client);
        let (arrived, latency) = (job.arrived, kernel.now() - job.arrived);
        let receiver = &mut loads[self.plans[kind].receiver].common;
        receiver.record(latency);
        if let Some(answered) = &mut receiver.answered {
            answered.push((Nanos(arrived), Nanos(latency)));
        }
        self.free_jobs.push(number);
        let flow = &mut self.flows[kind];
        flow.source.answer(client, &mut flow.streams.choices, flow.timer, kernel);
        match flow.outside.pop_front() {
            Some(next) => self.make_ready(kernel, next, self.plans[kind].first, Waker::Thread(by)),
            None => flow.under_way -= 1,
        }
    }

    /// Since when the oldest stage that no thread works on has waited in a workload. Where all threads of a pool sleep, for
    /// locks or for others, no CPU would help, and what waits for them does not count.
    pub fn oldest_waiting(&self, workload: usize, kernel: &Kernel) -> Option<u64> {
        let moves =
            |pool: usize| self.workers.iter().any(|worker| worker.pool == pool && kernel.is_runnable(worker.task));
        let pools = self.pools.iter().enumerate().filter(|(_, pool)| pool.workload == workload);
        let queues = pools.filter_map(|(number, pool)| Some((number, pool.queue.front()?.2)));
        queues.filter(|&(number, _)| moves(number)).map(|(_, since)| since).min()
    }
}
