//! One attached workload: its behaviour, what was set on it, and what it has done.

use std::collections::VecDeque;
use std::sync::Arc;

use quell_model::{CpuCount, CpuId, CpuSet, Nanos, SchedClass, ThreadId, Workload};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp};

use crate::memory::Effect;
use crate::{Arrivals, Machine, ToyWorkload};

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub arrived: Nanos,
    /// Since when it waits: since it arrived, or since it was put back.
    pub since: Nanos,
    /// CPU time that it still needs, in thousandths of a nanosecond.
    pub left: u64,
}

/// What was set on a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    pub cpus: CpuSet,
    pub weight: u32,
    pub idle_only: bool,
    pub class: SchedClass,
    pub paused: bool,
    pub ways: u32,
    pub quota: Option<CpuCount>,
}

impl Settings {
    pub fn untouched(cpus: CpuSet, machine: &Machine) -> Settings {
        Settings {
            cpus,
            weight: 100,
            idle_only: false,
            class: SchedClass::NORMAL,
            paused: false,
            ways: machine.all_ways(),
            quota: None,
        }
    }
}

/// A thread that shares CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    pub id: ThreadId,
    pub demand: f64,
    pub class: SchedClass,
    pub cpus: Option<CpuSet>,
    pub cpu: CpuId,
    pub run_time: Nanos,
    pub run_delay: Nanos,
}

/// Sums since the last observation, for rates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub since: Nanos,
    pub bytes: f64,
    pub hits: f64,
    pub instructions: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub load: ToyWorkload,
    pub spec: Arc<Workload>,
    pub attached_at: Nanos,
    pub settings: Settings,
    pub threads: Vec<Thread>,
    pub queue: VecDeque<Waiting>,
    pub next_arrival: Option<Nanos>,
    /// CPU time used on granted CPUs.
    pub granted_time: Nanos,
    pub completed: u64,
    pub worst_latency: Nanos,
    pub effect: Effect,
    pub sums: Sums,
    dice: ChaCha8Rng,
}

impl Member {
    pub fn new(load: ToyWorkload, settings: Settings, now: Nanos) -> Member {
        let seed = if let Arrivals::Poisson { seed, .. } = load.arrivals { seed } else { 0 };
        let mut member = Member {
            spec: Arc::new(load.spec.clone()),
            attached_at: now,
            settings,
            threads: Vec::new(),
            queue: VecDeque::new(),
            next_arrival: None,
            granted_time: Nanos::ZERO,
            completed: 0,
            worst_latency: Nanos::ZERO,
            effect: Effect::default(),
            sums: Sums { since: now, ..Sums::default() },
            dice: ChaCha8Rng::seed_from_u64(seed),
            load,
        };
        member.schedule_arrival(now);
        member
    }

    /// Sets when the next request arrives.
    pub fn schedule_arrival(&mut self, now: Nanos) {
        self.next_arrival = match self.load.arrivals {
            Arrivals::None | Arrivals::Endless => None,
            Arrivals::Every(span) => Some(now + span.max(Nanos(1))),
            Arrivals::Poisson { mean, .. } => {
                let rate = 1.0 / mean.0.max(1) as f64;
                let gap = Exp::new(rate).map_or(0.0, |gaps| gaps.sample(&mut self.dice));
                Some(now + Nanos(1 + gap as u64))
            }
        };
    }

    /// The next request to work on, if there is one.
    pub fn next_request(&mut self, now: Nanos) -> Option<Waiting> {
        match self.load.arrivals {
            Arrivals::Endless => Some(Waiting { arrived: now, since: now, left: u64::MAX }),
            _ => self.queue.pop_front(),
        }
    }

    /// How long the oldest waiting request has waited.
    pub fn queueing_delay(&self, now: Nanos) -> Nanos {
        match self.load.arrivals {
            Arrivals::Endless => now - self.attached_at,
            _ => self.queue.front().map_or(Nanos::ZERO, |request| now - request.since),
        }
    }

    /// CPU time used since it attached.
    pub fn run_time(&self) -> Nanos {
        self.threads.iter().fold(self.granted_time, |sum, thread| sum + thread.run_time)
    }

    /// Time that threads waited since it attached.
    pub fn run_delay(&self) -> Nanos {
        self.threads.iter().fold(Nanos::ZERO, |sum, thread| sum + thread.run_delay)
    }
}
