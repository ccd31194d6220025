//! Workloads: what they do, how they fare, and what was counted of them.

use quell_model::cluster::{HostId, Movable};
use quell_model::{Class, Nanos, Slo, WorkloadId};
use quell_sim::contention::Profile;

use super::balance::Pace;
use super::queue::Times;
use quell_cluster::predict::Model;

/// A kind of workload, with what it does alone.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Latency-critical or best-effort.
    pub class: Class,
    /// Threads.
    pub vcpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes that it writes a second.
    pub dirty: f64,
    /// Ways in which it may move.
    pub movable: Movable,
    /// Phases: profile, seconds, multiple of the rate.
    pub phases: Vec<(usize, f64, f64)>,
    /// Requests a second.
    pub rate: f64,
    /// CPU seconds of a request alone; None: no service.
    pub service: Option<f64>,
    /// The owner's goal.
    pub slo: Option<Slo>,
    /// The constants of Equation 5.1, from a solo sweep of the load.
    pub model: Option<Model>,
    /// The prediction at 75 % of the peak load alone.
    pub threshold: Option<Nanos>,
}

/// All kinds, and their phases' paces alone.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// The kinds.
    pub all: Vec<Kind>,
    /// By profile: one thread alone.
    pub alone: Vec<Pace>,
}

impl Kinds {
    /// A workload's kind.
    #[must_use]
    pub fn of(&self, work: &Work) -> &Kind {
        &self.all[work.kind]
    }

    /// The profile of its phase.
    #[must_use]
    pub fn profile(&self, work: &Work) -> usize {
        self.of(work).phases[work.phase].0
    }

    /// Its phase's pace of one thread alone.
    #[must_use]
    pub fn alone(&self, work: &Work) -> &Pace {
        &self.alone[self.profile(work)]
    }

    /// Its requests a second in this phase.
    #[must_use]
    pub fn rate(&self, work: &Work) -> f64 {
        let kind = self.of(work);
        kind.rate * kind.phases[work.phase].2
    }
}

/// Sums since the last report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Seconds.
    pub time: f64,
    /// Memory-buffer-full events.
    pub mbf: f64,
    /// Soft interrupts.
    pub irqs: f64,
    /// CPU seconds.
    pub cpu: f64,
    /// Latency times seconds.
    pub latency: f64,
}

/// Totals of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Seconds without a host.
    pub pending: f64,
    /// Seconds of a service with an SLO.
    pub served: f64,
    /// Those beyond its SLO, or without a host.
    pub violated: f64,
    /// CPU seconds.
    pub cpu: f64,
    /// Work done, seconds of a thread alone.
    pub work: f64,
}

/// A workload.
#[derive(Clone, Debug)]
pub struct Work {
    /// Its kind's number.
    pub kind: usize,
    /// Number of its life in this place.
    pub life: u32,
    /// It exists.
    pub present: bool,
    /// Phase.
    pub phase: usize,
    /// Host.
    pub host: Option<HostId>,
    /// Time since which it waits for a place.
    pub pending: Option<Nanos>,
    /// Threads that run at a time, on average.
    pub running: f64,
    /// CPUs that it can have when it needs them.
    pub capacity: f64,
    /// Speed and memory traffic of one of them.
    pub pace: Pace,
    /// A service's latency; None: saturated, or no service.
    pub times: Option<Times>,
    /// Requests that wait because it was saturated or stood still.
    pub backlog: f64,
    /// Sums since the last report.
    pub sums: Sums,
    /// Totals of the run.
    pub totals: Totals,
}

impl Work {
    /// A new one of this kind.
    #[must_use]
    pub fn new(kind: usize, life: u32) -> Work {
        Work {
            kind,
            life,
            present: true,
            phase: 0,
            host: None,
            pending: None,
            running: 0.0,
            capacity: 0.0,
            pace: Pace { speed: 1.0, ..Pace::default() },
            times: None,
            backlog: 0.0,
            sums: Sums::default(),
            totals: Totals::default(),
        }
    }

    /// This many seconds pass on its host. Interrupts nearer to each other than `merged` seconds are one.
    pub fn pass(&mut self, kinds: &Kinds, time: f64, merged: f64) {
        let kind = kinds.of(self);
        let rate = kinds.rate(self);
        self.sums.time += time;
        self.sums.mbf += self.pace.mbf * self.running * time;
        self.sums.cpu += self.running * time;
        self.totals.cpu += self.running * time;
        self.totals.work += self.running * self.pace.speed * time;
        let Some(service) = kind.service else { return };
        self.sums.irqs += rate / (1.0 + rate * merged) * time;
        let latency = self.latency(rate, service, time);
        self.sums.latency += latency * time;
        if let Some(slo) = kind.slo {
            self.totals.served += time;
            self.totals.violated += if latency > slo.bound.0 as f64 / 1e9 { time } else { 0.0 };
        }
    }

    /// The 99th percentile of its latency over the next seconds, and the backlog after them.
    fn latency(&mut self, rate: f64, service: f64, time: f64) -> f64 {
        let capacity = self.capacity.max(1e-3) * self.pace.speed.max(1e-6) / service;
        let before = self.backlog;
        self.backlog = (before + (rate - capacity) * time).max(0.0);
        let queued = (before + self.backlog) / 2.0 / capacity;
        queued + self.times.map_or(0.0, |times| times.p99)
    }

    /// This many seconds pass without a host.
    pub fn wait(&mut self, kinds: &Kinds, time: f64) {
        self.totals.pending += time;
        if kinds.of(self).slo.is_some() {
            self.totals.served += time;
            self.totals.violated += time;
        }
    }
}

/// Profiles by name, each once.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    names: Vec<String>,
    /// The profiles.
    pub all: Vec<Profile>,
}

impl Profiles {
    /// The number of a library profile. The scenario was checked.
    pub fn number(&mut self, name: &str) -> usize {
        if let Some(at) = self.names.iter().position(|known| known == name) {
            return at;
        }
        let profile = quell_sim::contention::library::named(name).cloned().unwrap_or(Profile::SPINNING);
        self.names.push(name.to_owned());
        self.all.push(profile);
        self.all.len() - 1
    }
}

/// Number of a workload.
#[must_use]
pub fn workload(at: usize) -> WorkloadId {
    WorkloadId(at as u32)
}
