//! Algorithm 2: the memory bandwidth controller (caladan-osdi20 §5.2.2).
//!
//! ```text
//! if GlobalMemBandwidth() < THRESH_BW:
//!     increment the core limit on the most limited task
//!     sleep(10 µs); continue
//! for each core C: start[C] = ReadLLCMisses(C)
//! sleep(10 µs)
//! for each core C:
//!     end = ReadLLCMisses(C)
//!     misses[task_on_core[C]] += end - start[C]
//! find task T that is BE and has the highest misses
//! decrement task T's core limit and revoke a core
//! ```
//!
//! Reading the counters of other cores takes a while, so that the loop is a state machine here ([`Reading`]). While
//! the bus stays saturated the end of one measurement is the start of the next: one core is revoked every 10 µs.
//!
//! Beyond the paper: where no counter tells the bandwidth, THRESH_SLOWDOWN says when memory answers too slowly. That is
//! looked at seldom, so that a limit changes by one core a look; and where LLC misses are not counted either, the
//! best-effort task that holds the most cores pays.

use quell_model::view::at;
use quell_model::{
    BytesPerSecond, CpuId, Event, Nanos, NoteKind, Part, Plan, Quality, Sample, SampleRequest, Signal, SignalSet,
    Verdict, View, WorkloadId,
};
use serde::{Deserialize, Serialize};

use crate::cores::{Cores, Tasks};
use crate::kit::once::Once;

/// Where the measurement of LLC misses stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Reading {
    /// The bus is not saturated.
    None,
    /// `start[]` has been asked for.
    StartAsked,
    /// `start[]` is here.
    Started,
    /// `end[]` has been asked for.
    EndAsked,
}

/// How much of the bus is in use.
enum Saturation {
    /// Nothing tells.
    Unmeasured,
    /// There is no value yet, or none since the last one.
    Unknown,
    /// The bandwidth in use is THRESH_BW or more, or not.
    Counted(bool),
    /// Memory answers THRESH_SLOWDOWN times as slowly as when it is quiet, or not.
    Felt(bool),
}

/// The controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Bandwidth {
    /// THRESH_BW; None: off.
    thresh: Option<BytesPerSecond>,
    /// THRESH_SLOWDOWN; None: off.
    thresh_slowdown: Option<f64>,
    /// Is it the slowdown that says how busy the bus is?
    by_slowdown: bool,
    /// When memory's slowdown was measured that has been acted on.
    slowdown_at: Nanos,
    /// The core limit of each task, by slot; None: not limited.
    limit: Vec<Option<u32>>,
    reading: Reading,
    /// `start[]`, by core.
    start: Vec<Sample<u64>>,
    /// Misses per second of each task, by slot.
    misses: Vec<f64>,
    /// Has it been said that a signal is absent?
    said_absent: Once,
    /// Has it been said that nobody can be throttled?
    said_no_room: Once,
}

impl Bandwidth {
    pub fn new(thresh: Option<BytesPerSecond>, thresh_slowdown: Option<f64>) -> Bandwidth {
        Bandwidth {
            thresh,
            thresh_slowdown,
            by_slowdown: false,
            slowdown_at: Nanos::ZERO,
            limit: Vec::new(),
            reading: Reading::None,
            start: Vec::new(),
            misses: Vec::new(),
            said_absent: Once::default(),
            said_no_room: Once::default(),
        }
    }

    /// The core limit of a task; None: it is not limited.
    pub fn limit_of(&self, task: WorkloadId) -> Option<u32> {
        self.limit.get(task.index()).copied().flatten()
    }

    /// Is a task that holds so many cores at its limit?
    pub fn limits(&self, task: WorkloadId, held: u32) -> bool {
        self.limit_of(task).is_some_and(|limit| held >= limit)
    }

    /// Polls the bus: once a round.
    pub fn poll(&mut self, view: &View, tasks: &Tasks, cores: &mut Cores, plan: &mut Plan) {
        if self.thresh.is_none() && self.thresh_slowdown.is_none() {
            return;
        }
        let counts_misses = !view.cpus.llc_misses.is_empty();
        let is_saturated = match self.saturation(view) {
            Saturation::Unmeasured if self.thresh.is_none() => {
                return self.switch_off("memory's slowdown is not measured", plan);
            }
            Saturation::Unmeasured => return self.switch_off("memory bandwidth is not measured", plan),
            // Who is to pay could not be said, and throttling anybody else would help nobody.
            Saturation::Counted(_) if !counts_misses => return self.switch_off("LLC misses are not counted", plan),
            // The end of a measurement is not put off until memory is looked at again: cores would change hands meanwhile.
            Saturation::Unknown if self.by_slowdown && self.reading == Reading::Started => true,
            Saturation::Unknown => return,
            Saturation::Counted(is_saturated) | Saturation::Felt(is_saturated) => is_saturated,
        };
        self.limit.resize(tasks.slots(), None);
        if !is_saturated {
            self.reading = Reading::None;
            self.said_no_room.forget();
            self.increment_most_limited(view.pool().len() as u32);
            return;
        }
        if !counts_misses {
            let held = |id| f64::from(cores.held(id));
            let largest = worst(tasks, cores, held);
            return self.throttle(largest, |_| 0.0, cores, plan);
        }
        self.reading = match self.reading {
            Reading::None => Reading::StartAsked,
            Reading::Started => Reading::EndAsked,
            // The samples are late; they will come.
            waiting => return self.reading = waiting,
        };
        plan.samples.push(SampleRequest { signals: LLC_MISSES, cpus: view.pool() });
    }

    /// GlobalMemBandwidth() against its threshold, or what stands for both.
    fn saturation(&mut self, view: &View) -> Saturation {
        let (used, slowdown) = (view.machine.memory_bandwidth, view.machine.memory_slowdown);
        self.by_slowdown = self.thresh.is_none() || used.quality == Quality::Absent;
        if let Some(thresh) = self.thresh.filter(|_| !self.by_slowdown) {
            return used.usable().map_or(Saturation::Unknown, |used| Saturation::Counted(used >= thresh));
        }
        match (self.thresh_slowdown, slowdown.usable()) {
            (None, _) => Saturation::Unmeasured,
            (Some(_), _) if slowdown.quality == Quality::Absent => Saturation::Unmeasured,
            (Some(thresh), Some(times)) if slowdown.at > self.slowdown_at => {
                self.slowdown_at = slowdown.at;
                Saturation::Felt(times >= thresh)
            }
            (Some(_), _) => Saturation::Unknown,
        }
    }

    fn switch_off(&mut self, why: &str, plan: &mut Plan) {
        self.reading = Reading::None;
        self.limit.fill(None);
        if self.said_absent.first() {
            plan.note(NoteKind::Warning, None, format!("{why}: the memory bandwidth controller is off"));
        }
    }

    fn increment_most_limited(&mut self, cores: u32) {
        let limited = self.limit.iter_mut().filter(|limit| limit.is_some());
        if let Some(most_limited) = limited.min_by_key(|limit| limit.unwrap_or(u32::MAX)) {
            *most_limited = most_limited.map(|limit| limit + 1).filter(|&limit| limit < cores);
        }
    }

    /// Follows detachments, and takes in the samples that were asked for.
    pub fn hear(&mut self, view: &View, events: &[Event], tasks: &Tasks, cores: &mut Cores, plan: &mut Plan) {
        for event in events {
            match event {
                Event::Attached(id) | Event::Detached(id) => {
                    if let Some(limit) = self.limit.get_mut(id.index()) {
                        *limit = None;
                    }
                }
                Event::Outcome(outcome)
                    if matches!(outcome.part, Part::Sample(_))
                        && matches!(outcome.verdict, Verdict::Refused(_) | Verdict::Vanished) =>
                {
                    self.reading = Reading::None;
                }
                Event::SamplesReady => match self.reading {
                    Reading::StartAsked => self.read_start(view, cores),
                    Reading::EndAsked => {
                        self.throttle_worst(view, tasks, cores, plan);
                        match self.by_slowdown {
                            true => self.reading = Reading::None,
                            false => self.read_start(view, cores),
                        }
                    }
                    Reading::None | Reading::Started => {}
                },
                _ => {}
            }
        }
    }

    fn read_start(&mut self, view: &View, cores: &mut Cores) {
        self.start.clear();
        self.start.extend_from_slice(&view.cpus.llc_misses);
        self.reading = Reading::Started;
        cores.watch();
    }

    /// "Find task T that is BE and has the highest misses", and throttle it.
    fn throttle_worst(&mut self, view: &View, tasks: &Tasks, cores: &mut Cores, plan: &mut Plan) {
        self.attribute(view, tasks, cores);
        let worst = worst(tasks, cores, |id| self.misses.get(id.index()).copied().unwrap_or(0.0));
        let start = std::mem::take(&mut self.start);
        let missing = |core: CpuId| rate(at(&start, core.index()), at(&view.cpus.llc_misses, core.index()));
        self.throttle(worst, missing, cores, plan);
        self.start = start;
    }

    /// "Revokes one core from the worst offending task": the one that misses most.
    fn throttle(
        &mut self,
        worst: Option<WorkloadId>,
        missing: impl Fn(CpuId) -> f64,
        cores: &mut Cores,
        plan: &mut Plan,
    ) {
        let Some(worst) = worst else {
            if self.said_no_room.first() {
                let text = "memory bandwidth is saturated, and no best-effort workload can be throttled for it";
                plan.note(NoteKind::Warning, None, text);
            }
            return;
        };
        let held = cores.held(worst);
        let limit = &mut self.limit[worst.index()];
        *limit = Some(limit.map_or(held, |limit| limit.min(held)).saturating_sub(1));
        let its = cores.pool();
        let its = its.iter().filter(|&core| cores.task_on(core) == Some(worst));
        let most_missing = its.max_by(|&a, &b| missing(a).total_cmp(&missing(b)));
        if let Some(core) = most_missing {
            cores.revoke(core, plan);
            plan.note(NoteKind::Because, Some(worst), "memory bandwidth is saturated: one core less");
        }
    }

    /// `misses[task_on_core[C]] += end - start[C]`, as a rate by the samples' own times. "We discard samples from
    /// tasks that have yielded or have been preempted during the measurement interval."
    fn attribute(&mut self, view: &View, tasks: &Tasks, cores: &Cores) {
        self.misses.clear();
        self.misses.resize(tasks.slots(), 0.0);
        for core in cores.pool().difference(&cores.changed()).iter() {
            let task = cores.task_on(core).and_then(|task| self.misses.get_mut(task.index()));
            let (start, end) = (at(&self.start, core.index()), at(&view.cpus.llc_misses, core.index()));
            if let Some(misses) = task {
                *misses += rate(start, end);
            }
        }
    }

    /// What the controller reads.
    pub fn signals(&self) -> SignalSet {
        let counted = self.thresh.map(|_| SignalSet::of(&[Signal::MemoryBandwidth]));
        let felt = self.thresh_slowdown.map(|_| SignalSet::of(&[Signal::MemorySlowdown]));
        match counted.into_iter().chain(felt).reduce(SignalSet::union) {
            Some(saturation) => saturation.union(LLC_MISSES),
            None => SignalSet::default(),
        }
    }
}

/// The best-effort task that holds cores and is worst by this measure; none where nobody has any of it.
fn worst(tasks: &Tasks, cores: &Cores, measure: impl Fn(WorkloadId) -> f64) -> Option<WorkloadId> {
    let be = tasks.iter().filter(|(id, task)| !task.lc && cores.held(*id) > 0);
    let measured = be.map(|(id, _)| (measure(id), id)).filter(|(measure, _)| *measure > 0.0);
    measured.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, id)| id)
}

/// All that it may read.
pub(super) const SIGNALS: SignalSet =
    SignalSet::of(&[Signal::MemoryBandwidth, Signal::MemorySlowdown, Signal::LlcMisses]);

pub(super) const LLC_MISSES: SignalSet = SignalSet::of(&[Signal::LlcMisses]);

/// Misses per second between two samples; zero where one is missing.
fn rate(start: Sample<u64>, end: Sample<u64>) -> f64 {
    match (start.usable(), end.usable()) {
        (Some(first), Some(last)) if end.at > start.at => {
            last.saturating_sub(first) as f64 / Nanos::as_secs_f64(end.at - start.at)
        }
        _ => 0.0,
    }
}
