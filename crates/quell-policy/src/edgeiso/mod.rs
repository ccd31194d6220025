//! `edgeiso`: several latency-critical tasks on a small machine; the dominant contention of the one that is worst off is met
//! with core allocation, cycle throttling and GPU frequency throttling, step by step (snu2020 chapter 4, Algorithm 4.1).
//!
//! Each look, every 200 ms, is one turn of the algorithm: all diffs ([`diffs`]); another phase is profiled again
//! (`profiler`); the victim and the most contentious task ([`task`]); the next isolator ([`technique`]) and the next step
//! of it (`search`, [`isolation`]).
//!
//! What the text leaves open is as in the authors' published code: the victim is the task whose instruction rate fell most,
//! less its slack; the aggressor is the task that moves most, other services included; a search ends at a difference of
//! 0.5 %, or when a step moved it by no more.

mod config;
pub mod diffs;
mod invariants;
pub mod isolation;
pub mod pausing;
mod profiler;
mod search;
pub mod searching;
pub mod task;
pub mod technique;
mod verify;

use quell_model::knob::Settling;
use quell_model::trial::Finding;
use quell_model::{
    CpuSet, Description, Event, Key, KnobKind, Nanos, Need, NoteKind, Part, Plan, Policy, Refusal, Signal, SignalSet,
    Uses, Verdict, View, Wake, WorkloadId,
};
use serde::{Deserialize, Serialize};

use isolation::Isolation;
use profiler::{Mode, Profiler};
use search::Isolator;
use task::Task;
use technique::Technique;

use crate::kit::ladder::Ladder;
use crate::kit::once::Once;
use crate::kit::periodic::Periodic;
use crate::kit::retry;
use crate::kit::trial::Trials;

pub use config::{EdgeIsoConfig, TaskConfig};

/// Knobs with pending outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct UnderWay {
    plan: u64,
    /// None: all that were ever touched.
    technique: Option<Technique>,
}

/// What was written, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Knobs {
    /// Techniques with at least one knob written.
    touched: [bool; 5],
    under_way: Option<UnderWay>,
    /// All knobs have to be written again from this time on.
    rewrite_at: Option<Nanos>,
    settling: Settling,
}

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeIso {
    config: EdgeIsoConfig,
    tasks: Vec<Task>,
    profiler: Profiler,
    isolation: Isolation,
    /// The isolation in force if what is under way is refused.
    before: Isolation,
    /// The current isolator.
    isolator: Option<Isolator>,
    ladder: Ladder<Technique>,
    /// Searches whose effect is verified.
    trials: Trials<Isolation>,
    knobs: Knobs,
    look: Periodic,
    phase_look: Periodic,
    /// The CPUs at the last step.
    pool: CpuSet,
    /// Are memory's counters here? Else its canary is asked for.
    has_counters: bool,
    said_absent: Once,
    said_exhausted: Once,
}

impl EdgeIso {
    /// The policy.
    #[must_use]
    pub fn new(config: EdgeIsoConfig) -> EdgeIso {
        EdgeIso {
            config,
            tasks: Vec::new(),
            profiler: Profiler::default(),
            isolation: Isolation::default(),
            before: Isolation::default(),
            isolator: None,
            ladder: Ladder::default(),
            trials: Trials::default(),
            knobs: Knobs::default(),
            look: Periodic::default(),
            phase_look: Periodic::default(),
            pool: CpuSet::EMPTY,
            has_counters: false,
            said_absent: Once::default(),
            said_exhausted: Once::default(),
        }
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "edgeiso",
        summary: "several LC workloads on a small machine: the worst off is isolated by cores, quotas, GPU frequency",
        source: "EdgeIso: dissertation, Seoul National University 2020, chapter 4 (Algorithm 4.1)",
        interval: Nanos::from_millis(200),
        signals: &[
            Need::must(Signal::RunTime),
            Need::or(Signal::RunDelay, "contention for the CPU is not seen"),
            Need::or(
                Signal::LlcHitRatio,
                "memory is one resource, by its canary, and a victim is found by its SLO alone",
            ),
            Need::or(
                Signal::WorkloadBandwidth,
                "the aggressor is found by pauses of best-effort workloads, or none is",
            ),
            Need::or(Signal::InstructionRate, "a victim is found by its SLO alone"),
            Need::or(Signal::ThreadCount, "another number of threads is not seen as another phase"),
            Need::or(Signal::Latency, "a victim is found by its instruction rate alone, as in the authors' code"),
            Need::or(Signal::MemorySlowdown, "without counters contention for memory is not seen"),
            Need::or(Signal::CycleRate, "where no latency is reported, trials are judged by the contention"),
            Need::or(Signal::RequestRate, "a load that moved during a trial is known by instructions alone"),
        ],
        knobs: &[
            Need::must(KnobKind::Cpus),
            Need::or(KnobKind::Quota, "contention for the LLC is met by cache ways alone"),
            Need::or(KnobKind::CacheWays, "contention for the LLC is met by quotas alone, as on the paper's device"),
            Need::or(KnobKind::GpuFrequencyKhz, "contention for memory is met by cores and quotas alone"),
        ],
        rules: &[],
        keys: &[Uses::critical(Key::Slo), Uses::critical(Key::Pausable)],
        grants: false,
    };

    /// The tasks.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The isolation in force, or under way.
    #[must_use]
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// The trial under way.
    #[must_use]
    pub fn trial(&self) -> Option<&quell_model::Trial> {
        self.trials.running()
    }

    /// The technique and the victim of the current search.
    #[must_use]
    pub fn isolator(&self) -> Option<(Technique, WorkloadId)> {
        self.isolator.as_ref().map(|isolator| (isolator.technique, isolator.victim))
    }

    /// Is there something to keep apart: a latency-critical task, and another one?
    fn is_on(&self) -> bool {
        self.tasks.len() > 1 && self.tasks.iter().any(|task| task.is_critical)
    }

    /// Workloads or CPUs came or went: the resources are divided anew.
    fn meet(&mut self, view: &View, plan: &mut Plan) {
        self.trials.abandon(Finding::Overtaken, plan);
        self.trials.memory.forget();
        self.profiler.pausing.forget();
        let known = std::mem::take(&mut self.tasks);
        let ids = view.owned().map(|(id, spec)| (id, spec.is_lc()));
        self.tasks.extend(ids.map(|(id, is_critical)| {
            let old = known.iter().find(|task| task.id == id && task.is_critical == is_critical);
            old.copied().unwrap_or_else(|| Task::new(view, id, &self.config))
        }));
        let had_quota = |id| self.isolation.of(id).is_some_and(|share| share.had_quota);
        let mut next = Isolation { quota_step: self.config.quota_step, ..Isolation::default() };
        if self.is_on() {
            next.divide(view)
        } else {
            next.lift(view)
        }
        next.shares.iter_mut().for_each(|share| share.had_quota = had_quota(share.id));
        self.isolation = next;
        self.trials.prepare(&self.isolation);
        self.isolator = None;
        self.ladder.forget_tries();
        self.knobs.touched[Technique::Cores as usize] |= self.is_on();
        if self.knobs.touched.contains(&true) {
            self.knobs.rewrite_at = Some(view.now);
        }
    }

    /// Takes in the outcomes of knobs and solo runs.
    fn handle(&mut self, view: &View, events: &[Event], plan: &mut Plan) {
        for event in events {
            match event {
                Event::Detached(id) => {
                    self.end_solo_without(*id, plan);
                    self.tasks.retain(|task| task.id != *id);
                    self.isolation.shares.retain(|share| share.id != *id);
                }
                Event::SoloBegan(id) if self.profiler.pausing.is_own(*id) => self.profiler.pausing.began(view.now),
                Event::SoloEnded(id, _) if self.profiler.pausing.is_own(*id) => {
                    self.profiler.pausing.ended(view.now, plan);
                    if !self.profiler.pausing.is_on() {
                        self.disturbed(KnobKind::Pause, view.now);
                    }
                }
                Event::SoloBegan(id) => {
                    self.profiler.began(*id, view.now);
                    self.disturbed(KnobKind::Pause, view.now);
                }
                Event::Spared(id) => self.spared(*id, view.now, plan),
                Event::SoloEnded(id, _) => {
                    let span = self.profiler.ended(*id, view.now);
                    let task = self.tasks.iter_mut().find(|task| task.id == *id);
                    if task.is_some_and(|task| !task.was_alone(span, view.now, &self.config)) {
                        self.profiler.put_off(view.now);
                    }
                    let task = self.tasks.iter_mut().find(|task| task.id == *id);
                    if task.as_ref().is_some_and(|task| task.left_bandwidth()) {
                        self.lift_of_bandwidth(*id, view);
                    }
                    let task = self.tasks.iter_mut().find(|task| task.id == *id);
                    if task.is_some_and(Task::is_another_phase) {
                        self.forget_trials(*id, view);
                    }
                    self.disturbed(KnobKind::Pause, view.now);
                }
                Event::Outcome(outcome) => match (outcome.part, &outcome.verdict) {
                    (Part::Lease(_), Verdict::Refused(why)) => {
                        self.profiler.refused(outcome.plan, view.now, why, plan);
                        self.profiler.pausing.refused(outcome.plan, view.now, why, plan);
                    }
                    (Part::Knobs, verdict) if self.knobs.under_way.is_some_and(|knobs| knobs.plan == outcome.plan) => {
                        self.knobs_settled(view.now, verdict, plan);
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }

    /// A service is gone: a solo run beside it is one no more.
    fn end_solo_without(&mut self, gone: WorkloadId, plan: &mut Plan) {
        let is_service = self.tasks.iter().any(|task| task.id == gone && task.is_critical);
        if let Some(alone) = self.profiler.alone().filter(|alone| *alone != gone && is_service) {
            plan.leases.push(quell_model::LeaseRequest::End(alone));
        }
    }

    /// A workload runs on beside a solo run, or in what would be its pause.
    fn spared(&mut self, id: WorkloadId, now: Nanos, plan: &mut Plan) {
        if self.profiler.pausing.is_on() {
            return self.profiler.pausing.spared(now);
        }
        self.profiler.has_company = true;
        plan.note(
            NoteKind::Because,
            Some(id),
            "its watchdog forbids a pause: it runs on beside the solo run, an estimate",
        );
    }

    /// Nothing is judged before this has taken effect.
    fn disturbed(&mut self, kind: KnobKind, now: Nanos) {
        self.knobs.settling.set(kind, now);
        self.look.put_off(self.knobs.settling.until());
        self.tasks.iter_mut().for_each(|task| task.gauge.begin(self.knobs.settling.until()));
    }

    fn knobs_settled(&mut self, now: Nanos, verdict: &Verdict, plan: &mut Plan) {
        let Some(knobs) = self.knobs.under_way.take() else { return };
        match verdict {
            Verdict::Applied(_) | Verdict::Pending(_) => {}
            // A target is gone, and with it the plan.
            Verdict::Vanished => self.knobs.rewrite_at = Some(now + retry::FIRST),
            Verdict::Refused(why) => {
                plan.note(NoteKind::Warning, None, format!("the host refused: {why}"));
                self.isolator = None;
                let never = matches!(why, Refusal::Unsupported(_) | Refusal::Forbidden(_));
                let Some(technique) = knobs.technique else {
                    return self.division_refused(now, never);
                };
                self.isolation.clone_from(&self.before);
                if never {
                    self.ladder.lacks(technique);
                }
                if self.trials.refused(plan) {
                    self.take_step(now);
                    self.knobs.rewrite_at = Some(now);
                }
            }
        }
    }

    fn division_refused(&mut self, now: Nanos, never: bool) {
        let only_cores = [Technique::CacheWays, Technique::Quota, Technique::GpuFrequency]
            .iter()
            .all(|technique| !self.knobs.touched[*technique as usize]);
        if never && only_cores {
            self.ladder.lacks(Technique::Cores);
            self.ladder.lacks(Technique::VictimCores);
            self.knobs.touched[Technique::Cores as usize] = false;
        } else {
            self.knobs.rewrite_at = Some(now + retry::FIRST);
        }
    }

    /// Writes everything that was ever set.
    fn rewrite(&mut self, view: &View, plan: &mut Plan) {
        self.knobs.rewrite_at = None;
        self.before.clone_from(&self.isolation);
        for technique in [Technique::CacheWays, Technique::Quota, Technique::GpuFrequency, Technique::Cores] {
            if self.knobs.touched[technique as usize] && self.ladder.has(technique) {
                self.isolation.write(technique, view, plan);
                self.disturbed(technique.knob(), view.now);
            }
        }
        if !plan.knobs.is_empty() {
            self.knobs.under_way = Some(UnderWay { plan: plan.number, technique: None });
        }
    }

    /// One turn of the algorithm's loop.
    fn turn(&mut self, view: &View, plan: &mut Plan) {
        let slowdown = view.machine.memory_slowdown.usable();
        let alone = self.profiler.alone();
        let takes = alone.is_none() || self.profiler.takes();
        let has_company = alone.is_some() && self.profiler.has_company;
        let is_beside = has_company || self.tasks.iter().any(|task| is_beside(view, task, alone));
        // line 2: get_all_diffs_of_LC_tasks
        for task in &mut self.tasks {
            let usage = task.read(view, &self.knobs.settling);
            if alone == Some(task.id) && takes {
                task.add_alone(&usage, slowdown, is_beside);
            } else if alone.is_none() {
                self.has_counters |= usage.memory_bandwidth.is_some() || usage.llc_hit_ratio.is_some();
                let cores = self.isolation.of(task.id).map_or(1, |share| share.cpus.len() as u32);
                task.look(usage, cores, slowdown);
            }
        }
        if self.config.verify && alone.is_none() {
            self.gauge(view);
        }
        match self.profiler.mode {
            Mode::Solo(id) => self.watch_solo(view, id, plan),
            Mode::Asked(..) => self.profiler.give_up(view.now, &self.config),
            Mode::CoRun => {
                // lines 3 to 7: phase_change_detection, profiling_solo_run
                if self.phase_look.is_due(view.now, self.config.phase_interval) {
                    self.detect_phases(view, plan);
                }
                if self.profiler.pausing.is_on() {
                    return;
                }
                if !self.profiler.ask(view, &self.tasks, &self.config, plan) && self.knobs.under_way.is_none() {
                    self.schedule(view, plan);
                }
            }
        }
    }

    /// A solo run ends at once when a service that is not paused misses its SLO.
    fn watch_solo(&mut self, view: &View, alone: WorkloadId, plan: &mut Plan) {
        let misses = |task: &Task| task.latency(view).is_some_and(|times| times > 1.0);
        let beside = self.tasks.iter().filter(|task| is_beside(view, task, Some(alone)));
        let suffers = beside.filter(|task| misses(task)).map(|task| task.id).next();
        if let Some(suffers) = suffers {
            plan.leases.push(quell_model::LeaseRequest::End(alone));
            plan.note(NoteKind::Because, Some(suffers), "it misses its SLO beside a solo run, which ends");
        } else {
            self.profiler.pass(view, &self.tasks, &self.config, plan);
        }
    }

    fn can_measure(&mut self, view: &View, plan: &mut Plan) {
        let critical = self.tasks.iter().find(|task| task.is_critical);
        if let Some(task) = critical.filter(|task| !task.can_measure(view))
            && self.said_absent.first()
        {
            let text = "neither LLC, memory bandwidth nor run time are measured: EdgeIso holds";
            plan.note(NoteKind::Warning, Some(task.id), text);
        }
    }
}

/// Is this a service that runs beside the solo run, because it may not be paused?
fn is_beside(view: &View, task: &Task, alone: Option<WorkloadId>) -> bool {
    let pausable = view.workload(task.id).is_some_and(|spec| spec.pausable);
    alone.is_some_and(|alone| alone != task.id) && task.is_critical && !pausable
}

impl Policy for EdgeIso {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    /// The canary is asked for only where there are no counters, and what trials are judged by only where there are trials.
    fn signals(&self) -> SignalSet {
        let unless = |signals: &[Signal], not: bool| if not { SignalSet::of(signals) } else { SignalSet::default() };
        let canary = unless(&[Signal::MemorySlowdown], self.has_counters);
        let trials = unless(&[Signal::CycleRate, Signal::RequestRate], !self.config.verify);
        Self::DESCRIPTION.signal_set().difference(canary).difference(trials)
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let comes_or_goes = |event: &Event| matches!(event, Event::Attached(_) | Event::Detached(_));
        let other_pool = std::mem::replace(&mut self.pool, view.pool()) != view.pool();
        self.handle(view, events, plan);
        if other_pool || events.iter().any(comes_or_goes) {
            self.meet(view, plan);
        }
        let is_calm = self.profiler.mode == Mode::CoRun && self.knobs.under_way.is_none();
        if is_calm && self.knobs.rewrite_at.is_some_and(|at| view.now >= at) {
            self.rewrite(view, plan);
        }
        let rewrite = self.knobs.rewrite_at.filter(|at| *at > view.now).map_or(Wake::OnEvent, Wake::At);
        let pauses = self.profiler.pausing.step(view, plan);
        if !self.is_on() {
            return rewrite;
        }
        if self.look.is_due(view.now, self.config.interval) {
            self.can_measure(view, plan);
            self.turn(view, plan);
        }
        // A search that begins now has its first look at once.
        let pauses = if self.profiler.pausing.is_new(view.now) { Wake::At(view.now + pausing::LOOK) } else { pauses };
        self.look.wake().sooner(rewrite).sooner(pauses)
    }
}

#[cfg(test)]
mod tests;
