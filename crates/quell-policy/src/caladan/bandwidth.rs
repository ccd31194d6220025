//! Algorithm 2: the memory bandwidth controller (caladan-osdi20 §5.2.2).
//!
//! ```text
//!  2  if GlobalMemBandwidth() < THRESH_BW:
//!  3      increment the core limit on the most limited task
//!  4      sleep(10 µs); continue
//!  6  for each core C: start[C] = ReadLLCMisses(C)
//!  8  sleep(10 µs)
//!  9  for each core C:
//! 10      end = ReadLLCMisses(C)
//! 11      misses[task_on_core[C]] += end - start[C]
//! 12  find task T that is BE and has the highest misses
//! 13  decrement task T's core limit and revoke a core
//! ```
//!
//! The counters of other cores take a while to read, so that the loop is a state machine here ([`Reading`]). While the bus
//! stays saturated the end of one measurement is the start of the next: one core is revoked every 10 µs. Machines without
//! these counters: [`felt`](super::felt).

use quell_model::view::at;
use quell_model::{
    BytesPerSecond, CpuId, Event, Nanos, NoteKind, Part, Plan, Quality, Sample, SampleRequest, Signal, SignalSet,
    Verdict, View, WorkloadId,
};
use serde::{Deserialize, Serialize};

use super::felt::{Bus, Felt, largest};
use super::limits::{Limits, worst};
use crate::cores::{Cores, Tasks};
use crate::kit::once::Once;

/// State of the measurement of LLC misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Reading {
    /// The bus is not saturated.
    None,
    /// Line 7: `start[]` has been asked for.
    StartAsked,
    /// Line 8: `start[]` is here.
    Started,
    /// Line 10: `end` has been asked for.
    EndAsked,
}

/// The controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Bandwidth {
    /// THRESH_BW; None: off.
    thresh_bw: Option<BytesPerSecond>,
    felt: Felt,
    /// Is the slowdown the measure of the bus's load?
    by_slowdown: bool,
    limits: Limits,
    reading: Reading,
    /// `start[]`, by core.
    start: Vec<Sample<u64>>,
    /// Misses per second of each task, by slot.
    misses: Vec<f64>,
    /// Has it been said that a signal is absent?
    said_absent: Once,
    /// Has it been said that no task can be throttled?
    said_no_room: Once,
}

impl Bandwidth {
    pub fn new(thresh_bw: Option<BytesPerSecond>, thresh_slowdown: Option<f64>) -> Bandwidth {
        Bandwidth {
            thresh_bw,
            felt: Felt::new(thresh_slowdown),
            by_slowdown: false,
            limits: Limits::default(),
            reading: Reading::None,
            start: Vec::new(),
            misses: Vec::new(),
            said_absent: Once::default(),
            said_no_room: Once::default(),
        }
    }

    /// The core limit of a task; None: it is not limited.
    pub fn limit_of(&self, task: WorkloadId) -> Option<u32> {
        self.limits.of(task)
    }

    /// Is a task that holds this number of cores at its limit?
    pub fn limits(&self, task: WorkloadId, held: u32) -> bool {
        self.limit_of(task).is_some_and(|limit| held >= limit)
    }

    /// Lines 2 to 10, once a round.
    pub fn poll(&mut self, view: &View, tasks: &Tasks, cores: &mut Cores, plan: &mut Plan) {
        if self.thresh_bw.is_none() && !self.felt.is_on() {
            return;
        }
        let counts_misses = !view.cpus.llc_misses.is_empty();
        let is_saturated = match self.bus(view) {
            Bus::Unmeasured(why) => return self.switch_off(why, plan),
            // A bandwidth that is counted, without a task to blame: throttling any other would help none.
            Bus::Saturated(_) if !self.by_slowdown && !counts_misses => {
                return self.switch_off("LLC misses are not counted", plan);
            }
            // A measurement ends before memory is looked at again: cores would change hands meanwhile.
            Bus::Unknown if self.by_slowdown && self.reading == Reading::Started => true,
            Bus::Unknown => return,
            Bus::Saturated(is_saturated) => is_saturated,
        };
        self.limits.fit(tasks.slots());
        if !is_saturated {
            self.reading = Reading::None;
            self.said_no_room.forget();
            self.limits.increment_most_limited(view.pool().len() as u32);
            return;
        }
        if !counts_misses {
            return self.throttle(largest(tasks, cores), |_| 0.0, cores, plan);
        }
        self.reading = match self.reading {
            Reading::None => Reading::StartAsked,
            Reading::Started => Reading::EndAsked,
            // The samples are late; they will come.
            waiting => return self.reading = waiting,
        };
        plan.samples.push(SampleRequest { signals: LLC_MISSES, cpus: view.pool() });
    }

    /// `GlobalMemBandwidth() < THRESH_BW`, or its substitute.
    fn bus(&mut self, view: &View) -> Bus {
        let used = view.machine.memory_bandwidth;
        match self.thresh_bw {
            Some(thresh) if used.quality != Quality::Absent => {
                self.by_slowdown = false;
                used.usable().map_or(Bus::Unknown, |used| Bus::Saturated(used >= thresh))
            }
            _ => {
                self.by_slowdown = true;
                self.felt.bus(view)
            }
        }
    }

    fn switch_off(&mut self, why: &str, plan: &mut Plan) {
        self.reading = Reading::None;
        self.limits.forget_all();
        if self.said_absent.first() {
            plan.note(NoteKind::Warning, None, format!("{why}: the memory bandwidth controller is off"));
        }
    }

    /// Follows tasks that come and go, and takes in the samples that were asked for.
    pub fn handle(&mut self, view: &View, events: &[Event], tasks: &Tasks, cores: &mut Cores, plan: &mut Plan) {
        for event in events {
            match event {
                Event::Attached(id) | Event::Detached(id) => self.limits.forget(*id),
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

    /// Lines 11 to 13.
    fn throttle_worst(&mut self, view: &View, tasks: &Tasks, cores: &mut Cores, plan: &mut Plan) {
        self.attribute(view, tasks, cores);
        let worst = worst(tasks, cores, |id| self.misses.get(id.index()).copied().unwrap_or(0.0));
        let start = std::mem::take(&mut self.start);
        let missing = |core: CpuId| rate(at(&start, core.index()), at(&view.cpus.llc_misses, core.index()));
        self.throttle(worst, missing, cores, plan);
        self.start = start;
    }

    /// Line 13; the core that misses most goes.
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
        self.limits.decrement(worst, cores.held(worst));
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

    /// The signals that the controller reads.
    pub fn signals(&self) -> SignalSet {
        let counted = self.thresh_bw.map(|_| SignalSet::of(&[Signal::MemoryBandwidth]));
        let felt = self.felt.is_on().then(|| SignalSet::of(&[Signal::MemorySlowdown]));
        match counted.into_iter().chain(felt).reduce(SignalSet::union) {
            Some(saturation) => saturation.union(LLC_MISSES),
            None => SignalSet::default(),
        }
    }
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
