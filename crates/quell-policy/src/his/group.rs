//! One foreground workload and its background: the paper's scheduling loop.

use quell_model::knob::Settling;
use quell_model::{
    Event, KnobKind, Lease, LeaseRequest, Nanos, NoteKind, Part, Plan, Refusal, Verdict, View, Wake, WorkloadId,
};
use serde::{Deserialize, Serialize};

use super::HisConfig;
use super::decide::Technique;
use super::isolate::{Direction, Isolation};
use crate::kit::contention::{Contention, Resource};
use crate::kit::ladder::Ladder;
use crate::kit::once::Once;
use crate::kit::profile::{Mean, Meter, Solo, Usage};
use crate::kit::retry;

/// Beside others, or alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Mode {
    /// Beside others.
    CoRun,
    /// A solo run was asked for at this time.
    Asked(Nanos),
    /// The foreground runs alone; its usage so far.
    Solo(Mean),
}

/// Knobs with pending outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct UnderWay {
    plan: u64,
    /// None: all that were ever touched.
    technique: Option<Technique>,
    /// The isolation in force if they are refused.
    before: Isolation,
}

/// The group and the isolation in force on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Group {
    foreground: WorkloadId,
    mode: Mode,
    solo: Option<Solo>,
    /// No solo run is asked for before this time.
    solo_not_before: Nanos,
    meter: Meter,
    /// Looks in a row that looked like another phase.
    strikes: u32,

    isolation: Isolation,
    /// Techniques with at least one knob written.
    touched: [bool; 3],
    ladder: Ladder<Technique>,
    /// The technique under search, and the contention that it is against.
    search: Option<(Technique, Resource)>,
    under_way: Option<UnderWay>,
    /// All knobs have to be written again from this time on.
    rewrite_at: Option<Nanos>,
    settling: Settling,
    next_look: Nanos,
    said_absent: Once,
    said_exhausted: Once,
}

impl Group {
    pub fn new(view: &View, foreground: WorkloadId, mut touched: [bool; 3], config: &HisConfig) -> Group {
        touched[Technique::Cores as usize] = true;
        Group {
            foreground,
            mode: Mode::CoRun,
            solo: None,
            solo_not_before: view.now,
            meter: Meter::default(),
            strikes: 0,
            isolation: Isolation::initial(view, foreground, config),
            touched,
            ladder: Ladder::default(),
            search: None,
            under_way: None,
            rewrite_at: Some(view.now),
            settling: Settling::default(),
            next_look: view.now,
            said_absent: Once::default(),
            said_exhausted: Once::default(),
        }
    }

    pub fn foreground(&self) -> WorkloadId {
        self.foreground
    }

    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    pub fn solo(&self) -> Option<Solo> {
        self.solo
    }

    pub fn touched(&self) -> [bool; 3] {
        self.touched
    }

    /// Workloads or CPUs came or went.
    pub fn changed(&mut self, view: &View) {
        self.isolation.fit(view);
        self.rewrite_at = Some(view.now);
    }

    /// Takes in the outcomes of knobs and solo runs.
    pub fn hear(&mut self, view: &View, events: &[Event], plan: &mut Plan) {
        for event in events {
            match event {
                Event::SoloBegan(id) if *id == self.foreground => {
                    self.mode = Mode::Solo(Mean::default());
                    self.disturbed(KnobKind::Pause, view.now);
                }
                Event::SoloEnded(id, _) if *id == self.foreground => self.solo_ended(view.now),
                Event::Outcome(outcome) => match (outcome.part, &outcome.verdict) {
                    (Part::Lease(_), Verdict::Refused(why)) => self.lease_refused(view.now, why, plan),
                    (Part::Knobs, verdict) if self.under_way.is_some_and(|knobs| knobs.plan == outcome.plan) => {
                        self.knobs_settled(view.now, verdict, plan);
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn disturbed(&mut self, kind: KnobKind, now: Nanos) {
        self.settling.set(kind, now);
        self.next_look = self.settling.until();
    }

    /// "After finishing, the profiler stores all collected performance counters."
    fn solo_ended(&mut self, now: Nanos) {
        if let Mode::Solo(mean) = self.mode {
            match mean.usage() {
                Some(usage) => self.solo = Some(Solo { usage, at: now }),
                None => self.solo_not_before = now + retry::FIRST,
            }
        } else {
            self.solo_not_before = now + retry::FIRST;
        }
        self.mode = Mode::CoRun;
        self.disturbed(KnobKind::Pause, now);
    }

    fn lease_refused(&mut self, now: Nanos, why: &Refusal, plan: &mut Plan) {
        if !matches!(self.mode, Mode::Asked(_)) {
            return;
        }
        self.mode = Mode::CoRun;
        self.solo_not_before = match why {
            Refusal::DutyCycle(until) => *until,
            other => {
                let text = format!("no solo run: {other}; trying again in {}", retry::FIRST);
                plan.note(NoteKind::Warning, Some(self.foreground), text);
                now + retry::FIRST
            }
        };
    }

    fn knobs_settled(&mut self, now: Nanos, verdict: &Verdict, plan: &mut Plan) {
        let Some(knobs) = self.under_way.take() else { return };
        let Verdict::Refused(why) = verdict else { return };
        plan.note(NoteKind::Warning, None, format!("the host refused: {why}"));
        self.isolation = knobs.before;
        self.search = None;
        let never = matches!(why, Refusal::Unsupported(_) | Refusal::Forbidden(_));
        let only_cores = self.touched == [false, false, true];
        match knobs.technique {
            Some(technique) if never => self.ladder.lacks(technique),
            Some(_) => {}
            // Without CPUs of its own the background's frequency cannot be set apart from the foreground's.
            None if never && only_cores => {
                self.ladder.lacks(Technique::Cores);
                self.ladder.lacks(Technique::Frequency);
            }
            None => self.rewrite_at = Some(now + retry::FIRST),
        }
    }

    /// One turn of the loop, if it is time.
    pub fn turn(&mut self, view: &View, config: &HisConfig, plan: &mut Plan) -> Wake {
        if self.rewrite_at.is_some_and(|at| view.now >= at) && self.mode == Mode::CoRun && self.under_way.is_none() {
            self.rewrite(view, config, plan);
        }
        if view.now >= self.next_look {
            self.next_look = view.now + config.interval;
            self.look(view, config, plan);
        }
        let rewrite = self.rewrite_at.filter(|&at| at > view.now).map_or(Wake::OnEvent, Wake::At);
        Wake::At(self.next_look).sooner(rewrite)
    }

    fn rewrite(&mut self, view: &View, config: &HisConfig, plan: &mut Plan) {
        self.rewrite_at = None;
        for technique in Technique::ALL {
            if self.touched[technique as usize] && self.ladder.has(technique) {
                self.isolation.write(technique, view, self.foreground, config, plan);
                self.disturbed(technique.knob(), view.now);
            }
        }
        if !plan.knobs.is_empty() {
            self.under_way = Some(UnderWay { plan: plan.number, technique: None, before: self.isolation });
        }
    }

    fn look(&mut self, view: &View, config: &HisConfig, plan: &mut Plan) {
        let usage = self.meter.read(view, self.foreground, &self.settling);
        match &mut self.mode {
            Mode::Solo(mean) => mean.add(&usage),
            // The host has not answered in time: ask again.
            Mode::Asked(at) if view.now >= *at + config.solo + retry::FIRST => self.mode = Mode::CoRun,
            Mode::Asked(_) => {}
            Mode::CoRun => {
                if self.needs_solo(view.now, config) {
                    self.ask_for_solo(view, config, plan);
                } else if let Some(solo) = self.solo
                    && self.under_way.is_none()
                {
                    self.schedule(view, &solo.usage, &usage, config, plan);
                }
            }
        }
    }

    /// "If there is no data to calculate resource contention or the profile sample data is outdated."
    fn needs_solo(&self, now: Nanos, config: &HisConfig) -> bool {
        now >= self.solo_not_before && self.solo.is_none_or(|solo| now - solo.at >= config.outdated)
    }

    fn ask_for_solo(&mut self, view: &View, config: &HisConfig, plan: &mut Plan) {
        if !self.can_measure(view) {
            if self.said_absent.first() {
                let text = "neither LLC, memory bandwidth nor run time are measured: HIS holds";
                plan.note(NoteKind::Warning, Some(self.foreground), text);
            }
            return;
        }
        let lease = Lease { solo: self.foreground, lift_isolations: true, at_most: config.solo };
        plan.leases.push(LeaseRequest::Begin(lease));
        plan.note(NoteKind::Because, Some(self.foreground), "no current solo-run data: it runs alone for a while");
        self.mode = Mode::Asked(view.now);
    }

    fn can_measure(&self, view: &View) -> bool {
        let (columns, slot) = (&view.workloads, self.foreground.index());
        quell_model::view::at(&columns.run_time, slot).usable().is_some()
            || quell_model::view::at(&columns.llc_hit_ratio, slot).usable().is_some()
            || quell_model::view::at(&columns.memory_bandwidth, slot).usable().is_some()
    }

    /// Chooses an isolation technique and searches its configurations.
    fn schedule(&mut self, view: &View, solo: &Usage, co_run: &Usage, config: &HisConfig, plan: &mut Plan) {
        let contention = Contention::between(solo, co_run);
        if self.phase_changed(&contention, solo, co_run, config) {
            self.begin_phase(view, config, plan);
            return;
        }
        if let Some((technique, resource)) = self.search {
            let Some(diff) = contention.of(resource) else { return };
            let direction = if diff < 0.0 { Direction::Strengthen } else { Direction::Weaken };
            if diff.abs() > config.threshold && self.enforce(technique, direction, view, config, plan) {
                return;
            }
            self.search = None;
        }
        let Some(resource) = contention.dominant(config.threshold) else {
            self.said_exhausted.forget();
            return;
        };
        for _ in Technique::against(resource) {
            let Some(technique) = self.ladder.choose(Technique::against(resource)) else { break };
            if self.enforce(technique, Direction::Strengthen, view, config, plan) {
                self.search = Some((technique, resource));
                plan.note(NoteKind::Because, Some(self.foreground), reason(technique, resource));
                return;
            }
        }
        if self.said_exhausted.first() {
            let text = format!("contention for {} remains, and every isolation is used up", resource.name());
            plan.note(NoteKind::Warning, Some(self.foreground), text);
        }
    }

    fn phase_changed(&mut self, contention: &Contention, solo: &Usage, co_run: &Usage, config: &HisConfig) -> bool {
        let more = |resource| contention.of(resource).is_some_and(|diff| diff > config.phase_change);
        let threads = solo.threads.zip(co_run.threads).is_some_and(|(solo, co_run)| solo != co_run);
        let another = threads || Resource::ALL.into_iter().any(more);
        self.strikes = if another { self.strikes + 1 } else { 0 };
        self.strikes >= config.phase_strikes
    }

    /// A new phase: its solo run is profiled, and the search begins anew.
    fn begin_phase(&mut self, view: &View, config: &HisConfig, plan: &mut Plan) {
        plan.note(NoteKind::Because, Some(self.foreground), "its phase changed: it is profiled again");
        self.solo = None;
        self.strikes = 0;
        self.search = None;
        self.ladder.forget_tries();
        self.isolation = Isolation::initial(view, self.foreground, config);
        self.rewrite_at = Some(view.now);
        self.next_look = view.now;
    }

    /// One configuration step; false where there is none.
    fn enforce(
        &mut self,
        technique: Technique,
        direction: Direction,
        view: &View,
        config: &HisConfig,
        plan: &mut Plan,
    ) -> bool {
        let next = self.isolation.next(technique, direction, self.foreground, view, config);
        let Some(next) = next else { return false };
        let before = std::mem::replace(&mut self.isolation, next);
        self.touched[technique as usize] = true;
        next.write(technique, view, self.foreground, config, plan);
        // Frequencies belong to CPUs: they follow when the CPUs move.
        if technique == Technique::Cores && self.touched[Technique::Frequency as usize] {
            next.write(Technique::Frequency, view, self.foreground, config, plan);
        }
        self.under_way = Some(UnderWay { plan: plan.number, technique: Some(technique), before });
        self.disturbed(technique.knob(), view.now);
        true
    }
}

fn reason(technique: Technique, resource: Resource) -> &'static str {
    match (technique, resource) {
        (Technique::CacheWays, _) => "the LLC is its dominant contention: cache ways",
        (Technique::Frequency, _) => "memory bandwidth is its dominant contention: frequency of the background",
        (Technique::Cores, Resource::Llc) => "the LLC is its dominant contention: cores",
        (Technique::Cores, Resource::MemoryBandwidth) => "memory bandwidth is its dominant contention: cores",
        (Technique::Cores, Resource::Cpu) => "the CPU is its dominant contention: cores",
    }
}
