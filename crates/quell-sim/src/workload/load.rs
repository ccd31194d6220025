//! A workload under way: its threads, and what they do next.

use quell_model::Nanos;

use super::body::{Body, Done};
use super::spec::WorkloadSpec;
use super::{Latencies, WorkloadStats};
use crate::Stream;
use crate::contention::{Phases, Profile, ProfileName, Whose};
use crate::kernel::{Kernel, PhaseId, TaskId, Timer};
use crate::switching::Switching;
use crate::timers::TimerId;

/// Random streams of a workload.
const STREAMS: u64 = 4;

/// A workload's random numbers, one stream a purpose. They are its own, whatever else runs.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    /// When something comes.
    pub times: Stream,
    /// How much work it is.
    pub services: Stream,
    /// Which thread it goes to.
    pub choices: Stream,
    /// Where its interrupt comes.
    pub interrupts: Stream,
}

impl Streams {
    /// Those of workload `number`.
    pub fn new(seed: u64, number: u64) -> Streams {
        let stream = |purpose: u64| Stream::new(seed, number * STREAMS + purpose);
        Streams { times: stream(0), services: stream(1), choices: stream(2), interrupts: stream(3) }
    }
}

/// What a workload's threads do at different times, as far as caches and memory are concerned.
#[derive(Clone, Debug)]
pub(crate) struct PhaseSet {
    /// Their work.
    pub own: PhaseId,
    /// A runtime's threads look for work.
    pub spinning: PhaseId,
    /// By turn of a cycle.
    pub cycle: Vec<PhaseId>,
    /// What memory bandwidth allocation leaves them, 0–1.
    pub throttle: f64,
}

impl PhaseSet {
    /// Those of a workload, that the host knows as this tenant.
    ///
    /// # Errors
    /// A sentence, if there are too many.
    pub fn new(spec: &WorkloadSpec, workload: usize, tenant: usize, phases: &mut Phases) -> Result<PhaseSet, String> {
        let throttle = spec.memory_throttle.unwrap_or(1.0);
        let mut add = |name: Option<&ProfileName>| phases.add(name, Whose { workload, tenant, throttle });
        let spinning = (spec.spins() && spec.profile.is_some()).then_some(ProfileName::Own(Profile::SPINNING));
        let turns = spec.batch.iter().flat_map(|batch| &batch.cycle);
        Ok(PhaseSet {
            own: add(spec.profile.as_ref())?,
            spinning: add(spinning.as_ref())?,
            cycle: turns.map(|turn| add(Some(&turn.profile))).collect::<Result<_, _>>()?,
            throttle,
        })
    }
}

/// What every kind of workload has.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub tasks: Vec<TaskId>,
    /// Threads that have ended.
    pub ended: Vec<TaskId>,
    pub phases: PhaseSet,
    pub stats: WorkloadStats,
    pub timer: TimerId,
    pub streams: Streams,
    /// Latencies since somebody looked last, if anybody does.
    pub recent: Option<Latencies>,
    /// Latencies since the clients' last report, if they report.
    pub unreported: Option<Latencies>,
    /// Requests of graphs that were answered, in the order of the answers: arrival and latency; None: not written down.
    pub answered: Option<Vec<(Nanos, Nanos)>>,
    bound: Option<Nanos>,
}

impl Common {
    /// Something took this long, ns.
    #[inline]
    pub fn record(&mut self, latency: u64) {
        self.stats.latencies.record(latency);
        for watched in [&mut self.recent, &mut self.unreported].into_iter().flatten() {
            watched.record(latency);
        }
        self.stats.violations += u64::from(self.bound.is_some_and(|bound| latency > bound.0));
    }

    /// Latencies since somebody looked last, and looking begins anew.
    pub fn take_recent(&mut self) -> Latencies {
        self.recent.replace(Latencies::default()).unwrap_or_default()
    }

    fn switching(&self, kernel: &Kernel) -> Switching {
        self.tasks.iter().chain(&self.ended).map(|&task| kernel.task(task).switching).sum()
    }

    fn used(&self, kernel: &Kernel) -> (u64, u64) {
        let tasks = || self.tasks.iter().chain(&self.ended);
        (tasks().map(|&task| kernel.run_time(task)).sum(), tasks().map(|&task| kernel.run_delay(task)).sum())
    }
}

/// A workload under way.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub common: Common,
    pub(super) body: Body,
}

impl Load {
    /// A workload whose threads exist and sleep.
    pub fn new(
        spec: &WorkloadSpec,
        number: u64,
        seed: u64,
        tasks: Vec<TaskId>,
        phases: PhaseSet,
        kernel: &mut Kernel,
    ) -> Load {
        let mut streams = Streams::new(seed, number);
        let body = Body::new(spec, tasks.len(), &mut streams, kernel.now());
        let timer = kernel.timers.add(Timer::Workload(number as u32));
        let bound = spec.slo.map(|slo| slo.bound);
        tasks.iter().for_each(|&task| kernel.set_phase(task, phases.own));
        let stats = WorkloadStats::default();
        let (ended, recent, unreported, answered) = (Vec::new(), None, None, None);
        let common = Common { tasks, ended, phases, stats, timer, streams, recent, unreported, answered, bound };
        Load { common, body }
    }

    /// The turn of batch work's cycle.
    pub fn turn(&self) -> Option<usize> {
        if let Body::Batch(batch) = &self.body { Some(batch.turn()) } else { None }
    }

    /// From now on a job server's jobs, and requests of graphs, are written down one by one.
    pub fn begin_log(&mut self) {
        self.common.answered = Some(Vec::new());
        if let Body::Jobs(jobs) = &mut self.body {
            jobs.log = Some(Vec::new());
        }
    }

    /// The jobs that were written down.
    pub fn log(&self) -> &[Done] {
        if let Body::Jobs(jobs) = &self.body { jobs.log.as_deref().unwrap_or_default() } else { &[] }
    }

    /// Its threads.
    pub fn tasks(&self) -> &[TaskId] {
        &self.common.tasks
    }

    /// CPU time that its threads have used since time 0, ns.
    pub fn run_time(&self, kernel: &Kernel) -> u64 {
        self.common.used(kernel).0
    }

    /// It begins: the first arrivals are set, batch work begins.
    pub fn start(&mut self, kernel: &mut Kernel) {
        let own = &mut self.common;
        match &mut self.body {
            Body::Server(server) => server.source.set_timer(own.timer, kernel),
            Body::Stealing(server) => server.source.set_timer(own.timer, kernel),
            Body::Batch(batch) => batch.start(own, kernel),
            Body::Parallel(parallel) => parallel.start(own, kernel),
            Body::Periodic(periodic) => periodic.start(own, kernel),
            Body::Jobs(jobs) => jobs.set_timer(own, kernel),
            Body::Forks(forks) => forks.start(own, kernel),
            Body::Stages | Body::Ended => {}
        }
    }

    /// The workload's timer: a request arrives, a client has thought enough, a phase ends.
    #[inline]
    pub fn due(&mut self, kernel: &mut Kernel) {
        let own = &mut self.common;
        match &mut self.body {
            Body::Server(server) => server.due(own, kernel),
            Body::Stealing(server) => server.due(own, kernel),
            Body::Batch(batch) => batch.due(own, kernel),
            Body::Jobs(jobs) => jobs.due(own, kernel),
            Body::Parallel(_) | Body::Periodic(_) | Body::Forks(_) | Body::Stages | Body::Ended => {}
        }
    }

    /// A thread's timer: its next job is released.
    pub fn release(&mut self, kernel: &mut Kernel, thread: usize) {
        match &mut self.body {
            Body::Periodic(periodic) => periodic.release(&mut self.common, kernel, thread),
            Body::Forks(forks) => forks.release(&mut self.common, kernel, thread),
            _ => {}
        }
    }

    /// A thread has done its work: what it did is recorded, and it goes on or blocks.
    #[inline]
    pub fn finished(&mut self, kernel: &mut Kernel, thread: usize) {
        let own = &mut self.common;
        match &mut self.body {
            Body::Server(server) => server.finished(own, kernel, thread),
            Body::Stealing(server) => server.finished(own, kernel, thread),
            Body::Parallel(parallel) => parallel.finished(own, kernel, thread),
            Body::Periodic(periodic) => periodic.finished(own, kernel, thread),
            Body::Jobs(jobs) => jobs.finished(own, kernel),
            Body::Forks(forks) => forks.finished(own, kernel, thread),
            Body::Batch(_) | Body::Stages | Body::Ended => kernel.block(own.tasks[thread]),
        }
    }

    /// Do its threads work on the stages of request graphs?
    pub fn serves_stages(&self) -> bool {
        matches!(self.body, Body::Stages)
    }

    /// A granted CPU was taken from under a thread.
    pub fn preempted(&mut self, kernel: &mut Kernel, thread: usize) {
        if let Body::Stealing(server) = &mut self.body {
            server.preempted(&mut self.common, kernel, thread);
        }
    }

    /// The workload was granted a CPU.
    pub fn granted(&mut self, kernel: &mut Kernel, cpu: usize) {
        if let Body::Stealing(server) = &mut self.body {
            server.granted(&mut self.common, kernel, cpu);
        }
    }

    /// How long its oldest request has waited for a thread, or its oldest runnable thread for a CPU. A runtime of green
    /// threads exports the delay of its requests, and nothing else counts.
    pub fn queueing_delay(&self, kernel: &Kernel, number: usize) -> u64 {
        let now = kernel.now();
        let oldest = self.body.oldest_waiting(now).map_or(0, |since| now - since);
        if let Body::Stealing(_) = self.body {
            return oldest;
        }
        let granted = kernel.grants.oldest(number).map(|task| now - kernel.task(task).runnable_since);
        let queued = || self.common.tasks.iter().filter_map(|&task| kernel.waits_since(task)).map(|since| now - since);
        let threads = granted.max(if kernel.grants_cpus() && granted.is_some() { None } else { queued().max() });
        oldest.max(threads.unwrap_or(0))
    }

    /// The warm-up is over: what was counted is forgotten, with what the threads have used so far.
    pub fn forget(&mut self, kernel: &Kernel) {
        let (run_time, run_delay) = self.common.used(kernel);
        let switching = self.common.switching(kernel);
        let stats = &mut self.common.stats;
        stats.latencies.clear();
        (stats.arrived, stats.violations, stats.missed) = (0, 0, 0);
        (stats.run_time, stats.run_delay) = (run_time, run_delay);
        stats.switching = switching;
    }

    /// What it achieved since the warm-up.
    pub fn stats(&self, kernel: &Kernel) -> WorkloadStats {
        let (run_time, run_delay) = self.common.used(kernel);
        let mut stats = self.common.stats.clone();
        stats.run_time = run_time - stats.run_time;
        stats.run_delay = run_delay - stats.run_delay;
        stats.switching = self.common.switching(kernel).since(stats.switching);
        stats
    }
}
