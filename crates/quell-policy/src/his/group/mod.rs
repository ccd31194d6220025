//! One foreground workload and its background: the paper's scheduling loop.
//!
//! What the text leaves open is as in the authors' published code: a search strengthens while the foreground gets less than
//! alone, and ends at a difference of 0.5 %, or when a step moved it by no more; another isolator is taken after three
//! looks at which another resource is the most contended; in a solo run the foreground has its initial cores.

mod search;
mod verify;

use quell_model::knob::Settling;
use quell_model::{
    CpuSet, Event, KnobKind, Lease, LeaseRequest, Nanos, NoteKind, Part, Plan, Refusal, Verdict, View, Wake, WorkloadId,
};
use serde::{Deserialize, Serialize};

use super::HisConfig;
use super::decide::Technique;
use super::isolate::Isolation;
use super::place::Place;
use crate::kit::contention::Resource;
use crate::kit::ladder::Ladder;
use crate::kit::once::Once;
use crate::kit::profile::{Alone, Meter, Solo, Usage};
use crate::kit::retry;
use crate::kit::trial::{Gauge, Trials};

/// Beside others, or alone.
#[expect(clippy::large_enum_variant, reason = "one a group, and a step allocates nothing")]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Mode {
    /// Beside others.
    CoRun,
    /// A solo run was asked for at this time, by the plan of this number.
    Asked(Nanos, u64),
    /// The foreground runs alone; its looks so far.
    Solo(Alone),
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

/// A search for a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Search {
    technique: Technique,
    /// The contention that it is against.
    resource: Resource,
    /// The difference before the last step.
    last: f64,
    /// Looks in a row at which another resource was the most contended.
    mismatches: u32,
}

/// The group and the isolation in force on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Group {
    place: Place,
    mode: Mode,
    solo: Option<Solo>,
    /// The solo-run data before it was profiled again.
    earlier: Option<Usage>,
    /// No solo run is asked for before this time.
    solo_not_before: Nanos,
    meter: Meter,
    /// Looks in a row that looked like another phase.
    strikes: u32,
    /// Its last solo run said that what looked like another phase was contention.
    is_acquitted: bool,

    isolation: Isolation,
    /// Techniques with at least one knob written.
    touched: [bool; 5],
    ladder: Ladder<Technique>,
    search: Option<Search>,
    trials: Trials<Isolation>,
    /// What trials are judged by.
    gauge: Gauge,
    /// CPU time of the background at the last look.
    work: Option<(Nanos, Nanos)>,
    /// The foreground's use at the last look beside others.
    co_run: Option<Usage>,
    under_way: Option<UnderWay>,
    /// All knobs have to be written again from this time on.
    rewrite_at: Option<Nanos>,
    settling: Settling,
    next_look: Nanos,
    said_absent: Once,
    said_exhausted: Once,
    #[serde(default)]
    said_noise: Once,
}

impl Group {
    pub fn new(view: &View, place: Place, mut touched: [bool; 5]) -> Group {
        touched[Technique::BackgroundCores as usize] = true;
        let isolation = Isolation::initial(view, &place);
        let mut trials = Trials::default();
        trials.prepare(&isolation);
        Group {
            isolation,
            place,
            mode: Mode::CoRun,
            solo: None,
            earlier: None,
            solo_not_before: view.now,
            meter: Meter::default(),
            strikes: 0,
            is_acquitted: false,
            touched,
            ladder: Ladder::default(),
            search: None,
            trials,
            gauge: Gauge::default(),
            work: None,
            co_run: None,
            under_way: None,
            rewrite_at: Some(view.now),
            settling: Settling::default(),
            next_look: view.now,
            said_absent: Once::default(),
            said_exhausted: Once::default(),
            said_noise: Once::default(),
        }
    }

    pub fn foreground(&self) -> WorkloadId {
        self.place.foreground
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Instruction rates over those of the solo run, less 1: co-run, if both were measured and nothing is under way.
    pub fn slowed(&self) -> Option<f64> {
        let calm = self.mode == Mode::CoRun && self.under_way.is_none();
        let solo = self.solo.filter(|_| calm)?.usage.instructions.filter(|rate| *rate > 0.0)?;
        Some(self.co_run?.instructions? / solo - 1.0)
    }

    /// The group has these members and CPUs from now on.
    pub fn moves(&mut self, view: &View, place: Place, plan: &mut Plan) {
        self.place = place;
        self.abandon_trials(plan);
        self.search = None;
        self.co_run = None;
        self.changed(view);
    }

    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    pub fn solo(&self) -> Option<Solo> {
        self.solo
    }

    pub fn touched(&self) -> [bool; 5] {
        self.touched
    }

    /// Workloads or CPUs came or went.
    pub fn changed(&mut self, view: &View) {
        self.isolation.fit(view, &self.place);
        self.rewrite_at = Some(view.now);
    }

    /// Takes in the outcomes of knobs and solo runs.
    pub fn handle(&mut self, view: &View, events: &[Event], plan: &mut Plan) {
        for event in events {
            match event {
                Event::SoloBegan(id) if *id == self.foreground() => {
                    self.mode = Mode::Solo(Alone::default());
                    self.disturbed(KnobKind::Pause, view.now);
                }
                Event::Spared(id) if matches!(self.mode, Mode::Solo(_)) => {
                    let text = "its watchdog forbids a pause: it runs on beside a solo run, which is an estimate";
                    plan.note(NoteKind::Because, Some(*id), text);
                }
                Event::SoloEnded(id, _) if *id == self.foreground() => self.solo_ended(view),
                Event::Outcome(outcome) => match (outcome.part, &outcome.verdict) {
                    (Part::Lease(_), Verdict::Refused(why)) if self.asked_by(outcome.plan) => {
                        self.lease_refused(view.now, why, plan);
                    }
                    (Part::Knobs, verdict) if self.under_way.is_some_and(|knobs| knobs.plan == outcome.plan) => {
                        self.knobs_settled(view.now, verdict, plan);
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn asked_by(&self, number: u64) -> bool {
        matches!(self.mode, Mode::Asked(_, plan) if plan == number)
    }

    fn disturbed(&mut self, kind: KnobKind, now: Nanos) {
        self.settling.set(kind, now);
        self.next_look = self.settling.until();
        self.gauge.begin(self.settling.until());
    }

    /// A solo run of any group began or ended: what was measured until now is of another machine.
    pub fn others_paused(&mut self, now: Nanos) {
        self.gauge.begin(now + KnobKind::Pause.effect_latency());
    }

    /// "After finishing, the profiler stores all collected performance counters."
    fn solo_ended(&mut self, view: &View) {
        let now = view.now;
        if let Mode::Solo(alone) = self.mode {
            match alone.solo(now) {
                Some(solo) => {
                    let usage = solo.usage;
                    let before = self.solo.replace(solo).map(|solo| solo.usage).or(self.earlier);
                    self.said_noise.forget();
                    if usage.moves_few_bytes() && before.is_some_and(|before| !before.moves_few_bytes()) {
                        self.lift_of_bandwidth(view);
                    }
                    if let Some(earlier) = self.earlier.take() {
                        self.is_acquitted = usage.is_of_the_same_phase(&earlier);
                        if !self.is_acquitted {
                            self.forget_trials(view);
                        }
                    }
                }
                None => self.solo_not_before = now + retry::FIRST,
            }
        } else {
            self.solo_not_before = now + retry::FIRST;
        }
        self.mode = Mode::CoRun;
        self.disturbed(KnobKind::Pause, now);
    }

    fn lease_refused(&mut self, now: Nanos, why: &Refusal, plan: &mut Plan) {
        if !matches!(self.mode, Mode::Asked(..)) {
            return;
        }
        self.mode = Mode::CoRun;
        self.solo_not_before = match why {
            Refusal::DutyCycle(until) => *until,
            other => {
                let text = format!("no solo run: {other}; trying again in {}", retry::FIRST);
                plan.note(NoteKind::Warning, Some(self.foreground()), text);
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
        let only_cores = !self.touched[..Technique::BackgroundCores as usize].contains(&true);
        match knobs.technique {
            Some(technique) => {
                if never {
                    self.ladder.lacks(technique);
                }
                if self.trials.refused(plan) {
                    self.isolation = *self.trials.set(now);
                    self.rewrite_at = Some(now);
                }
            }
            // Without CPUs of its own the background's frequency cannot be set apart from the foreground's.
            None if never && only_cores => {
                self.ladder.lacks(Technique::BackgroundCores);
                self.ladder.lacks(Technique::ForegroundCores);
                self.ladder.lacks(Technique::Frequency);
            }
            None => self.rewrite_at = Some(now + retry::FIRST),
        }
    }

    /// One turn of the loop, if it is time.
    pub fn turn(&mut self, view: &View, config: &HisConfig, plan: &mut Plan) -> Wake {
        if self.rewrite_at.is_some_and(|at| view.now >= at) && self.mode == Mode::CoRun && self.under_way.is_none() {
            self.rewrite(view, plan);
        }
        if view.now >= self.next_look {
            self.next_look = view.now + config.interval;
            self.look(view, config, plan);
        }
        let rewrite = self.rewrite_at.filter(|&at| at > view.now).map_or(Wake::OnEvent, Wake::At);
        Wake::At(self.next_look).sooner(rewrite)
    }

    fn rewrite(&mut self, view: &View, plan: &mut Plan) {
        self.rewrite_at = None;
        for technique in Technique::ALL {
            let is_written = technique == Technique::ForegroundCores;
            if self.touched[technique as usize] && self.ladder.has(technique) && !is_written {
                self.isolation.write(technique, view, &self.place, plan);
                self.disturbed(technique.knob(), view.now);
            }
        }
        if !plan.knobs.is_empty() {
            self.under_way = Some(UnderWay { plan: plan.number, technique: None, before: self.isolation });
        }
    }

    fn look(&mut self, view: &View, config: &HisConfig, plan: &mut Plan) {
        let usage = self.meter.read(view, self.foreground(), &self.settling);
        match &mut self.mode {
            Mode::Solo(alone) => alone.add(&usage),
            // The host has not answered in time: ask again.
            Mode::Asked(at, _) if view.now >= *at + config.solo + retry::FIRST => self.mode = Mode::CoRun,
            Mode::Asked(..) => {}
            Mode::CoRun => {
                self.co_run = Some(usage);
                if config.verify {
                    self.gauge(view, &usage, config);
                }
                if self.needs_solo(view.now, config) {
                    self.ask_for_solo(view, config, plan);
                } else if let Some(solo) = self.solo
                    && self.under_way.is_none()
                {
                    if config.verify && !self.verify(view, config, plan) {
                        return;
                    }
                    self.schedule(view, &solo, &usage, config, plan);
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
                plan.note(NoteKind::Warning, Some(self.foreground()), text);
            }
            return;
        }
        let (initial, _) = Isolation::initial(view, &self.place).split(view, &self.place);
        let lease = Lease {
            within: self.place.sockets.map(|_| self.place.cpus(view)),
            on: Some(initial).filter(|cpus: &CpuSet| !cpus.is_empty()),
            ..Lease::of(self.foreground(), true, config.solo)
        };
        plan.leases.push(LeaseRequest::Begin(lease));
        plan.note(NoteKind::Because, Some(self.foreground()), "no current solo-run data: it runs alone for a while");
        self.mode = Mode::Asked(view.now, plan.number);
    }

    fn can_measure(&self, view: &View) -> bool {
        let (columns, slot) = (&view.workloads, self.foreground().index());
        quell_model::view::at(&columns.run_time, slot).usable().is_some()
            || quell_model::view::at(&columns.llc_hit_ratio, slot).usable().is_some()
            || quell_model::view::at(&columns.memory_bandwidth, slot).usable().is_some()
    }
}
