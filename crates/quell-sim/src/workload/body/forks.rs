//! Threads that start short-lived threads: builds, shells, servers with a thread for each request.
//!
//! In the simulator each starting thread has places for the threads that it starts; a place's thread is renewed at each turn
//! (`Kernel::begin`). Places are taken in turn: a start waits while the thread in the next place is alive, as one that joins the
//! oldest of its threads first.

use std::collections::VecDeque;

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::service::Service;
use crate::workload::load::Common;

/// Every thread starts short-lived ones. Their latency is from the time at which they were to be started to the end of their work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForksSpec {
    /// Distance of the starts; None: back to back, each as soon as there is a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Nanos>,
    /// CPU time of a short-lived thread.
    pub work: Service,
    /// Most short-lived threads of one starting thread at a time, 1 to 1000: a start that comes earlier waits.
    #[serde(default = "one")]
    pub most: u32,
}

fn one() -> u32 {
    1
}

impl ForksSpec {
    /// What cannot be simulated, and the fix.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.work.check()?;
        if self.every.is_some_and(|every| every.0 < 1_000) {
            return Err("it starts threads more often than every microsecond: make that longer".into());
        }
        if !(1..=1_000).contains(&self.most) {
            return Err("a thread has 1 to 1000 short-lived ones at a time: set most so".into());
        }
        Ok(())
    }

    /// The share of a CPU that one starting thread's short-lived ones ask for; None: back to back.
    pub(crate) fn load(&self) -> Option<f64> {
        self.every.map(|every| self.work.mean() / every.0 as f64)
    }
}

/// A thread that starts others.
#[derive(Clone, Debug)]
struct Starter {
    /// Starts that wait: the times at which they were to be.
    due: VecDeque<u64>,
    /// It runs, or waits for a CPU.
    is_awake: bool,
    /// The next start's place.
    next: usize,
    places: Vec<Place>,
}

/// What a short-lived thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    /// It works; it was to be started at this time.
    Works(u64),
    Ends,
}

/// Forks under way. The workload's threads are the starting ones, then the places of each.
#[derive(Clone, Debug)]
pub(crate) struct Forks {
    spec: ForksSpec,
    starters: Vec<Starter>,
}

impl Forks {
    /// This many threads start others.
    pub fn new(spec: &ForksSpec, threads: u32) -> Forks {
        let places = vec![Place::Free; spec.most as usize];
        let starter = Starter { due: VecDeque::new(), is_awake: false, next: 0, places };
        Forks { spec: spec.clone(), starters: vec![starter; threads as usize] }
    }

    pub fn start(&mut self, own: &mut Common, kernel: &mut Kernel) {
        for thread in 0..self.starters.len() {
            self.release(own, kernel, thread);
        }
    }

    /// A starting thread's timer: a start is due.
    pub fn release(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        let now = kernel.now();
        if let Some(every) = self.spec.every {
            let timer = kernel.task(own.tasks[thread]).timer;
            kernel.timers.set(timer, now + every.0);
            own.stats.arrived += 1;
            self.starters[thread].due.push_back(now);
        }
        self.wake(own, kernel, thread, None);
    }

    fn can_start(&self, thread: usize) -> bool {
        let starter = &self.starters[thread];
        (self.spec.every.is_none() || !starter.due.is_empty()) && starter.places[starter.next] == Place::Free
    }

    /// If a thread can be started, its starter wakes up for it: by a timer, or by the end of the thread that had the place.
    fn wake(&mut self, own: &Common, kernel: &mut Kernel, thread: usize, ended: Option<usize>) {
        if self.starters[thread].is_awake || !self.can_start(thread) {
            return;
        }
        self.starters[thread].is_awake = true;
        let (task, cost) = (own.tasks[thread], fork_time(kernel));
        match ended {
            Some(ended) => kernel.wake_by(task, cost, own.tasks[ended]),
            None => kernel.wake(task, cost, kernel.last_cpu(task)),
        }
    }

    pub fn finished(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        if thread < self.starters.len() { self.started(own, kernel, thread) } else { self.ended(own, kernel, thread) }
    }

    /// A starting thread has made a thread, which begins.
    fn started(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        let (cost, each) = (fork_time(kernel), self.spec.most as usize);
        let starter = &mut self.starters[thread];
        let since = starter.due.pop_front().unwrap_or_else(|| {
            own.stats.arrived += 1;
            kernel.now().saturating_sub(cost)
        });
        starter.places[starter.next] = Place::Works(since);
        let child = own.tasks[self.starters.len() + thread * each + self.starters[thread].next];
        let starter = &mut self.starters[thread];
        starter.next = (starter.next + 1) % each;
        kernel.begin(child, self.spec.work.draw(&mut own.streams.services), own.tasks[thread]);
        if self.can_start(thread) {
            return kernel.continue_with(own.tasks[thread], cost);
        }
        self.starters[thread].is_awake = false;
        kernel.block(own.tasks[thread]);
    }

    /// A short-lived thread has done its work, or has ended after it.
    fn ended(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        let (each, end) = (self.spec.most as usize, kernel.config.costs.end.0);
        let (starter, number) = ((thread - self.starters.len()) / each, (thread - self.starters.len()) % each);
        let place = &mut self.starters[starter].places[number];
        if let Place::Works(since) = *place {
            own.record(kernel.now() - since);
            if end > 0 {
                *place = Place::Ends;
                return kernel.continue_with(own.tasks[thread], end);
            }
        }
        *place = Place::Free;
        self.wake(own, kernel, starter, Some(thread));
        kernel.exit(own.tasks[thread]);
    }

    pub fn oldest_waiting(&self) -> Option<u64> {
        self.starters.iter().filter_map(|starter| starter.due.front().copied()).min()
    }
}

/// CPU time that a start takes, ns.
fn fork_time(kernel: &Kernel) -> u64 {
    kernel.config.costs.fork.0.max(1)
}
