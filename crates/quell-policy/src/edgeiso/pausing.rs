//! The aggressor where nothing counts who moves bytes (not in the text): best-effort workloads are paused for a moment, one
//! after the other in random order. Memory's slowdown, the victim's cycles an instruction and its waiting for CPUs, as far as they
//! are measured, are compared with those just before, see [`crate::kit::suspects`].

use quell_model::view::at;
use quell_model::{KnobKind, Lease, LeaseRequest, Nanos, NoteKind, Plan, Refusal, View, Wake, WorkloadId};
use serde::{Deserialize, Serialize};

use crate::kit::retry;
use crate::kit::suspects::{Measure, Measured, PAUSE, Suspects};

/// How often the measures are looked at before and in a pause.
pub(super) const LOOK: Nanos = Nanos::from_millis(2);
/// The canary's value is a median of looks: those of this part of a pause, at its end, are of the pause alone.
const LAST: usize = 5;
/// What was found holds for this time.
const HOLDS: Nanos = Nanos::from_secs(60);
/// A host that does not answer is asked again after this time.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// The last looks at a measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Looks {
    values: [f64; LAST],
    count: u32,
    at: Nanos,
}

impl Looks {
    fn look(&mut self, value: f64, at: Nanos) {
        if at > self.at {
            self.values[self.count as usize % LAST] = value;
            (self.count, self.at) = (self.count + 1, at);
        }
    }

    /// The median of the last ones; None: too few.
    fn median(&self) -> Option<f64> {
        let mut values = self.values;
        values.sort_unstable_by(f64::total_cmp);
        (self.count as usize >= LAST).then(|| values[LAST / 2])
    }
}

/// What a stage has shown, of windows that lie in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Seen {
    since: Nanos,
    memory: Looks,
    cycles: Looks,
    /// The victim's run delay at the first look and at the last, each with its time.
    delays: Option<[(Nanos, Nanos); 2]>,
}

impl Seen {
    fn from(since: Nanos) -> Seen {
        Seen { since, ..Seen::default() }
    }

    fn look(&mut self, view: &View, victim: WorkloadId) {
        let (columns, slot, since) = (&view.workloads, victim.index(), self.since);
        let is_within = |at: Nanos, window: Nanos| at <= view.now && at >= since + window;
        let slowdown = view.machine.memory_slowdown;
        if let Some(times) = slowdown.usable().filter(|_| is_within(slowdown.at, slowdown.window)) {
            self.memory.look(times, slowdown.at);
        }
        let (cycles, instructions) = (at(&columns.cycle_rate, slot), at(&columns.instruction_rate, slot));
        let counted = cycles.usable().zip(instructions.usable()).filter(|(_, retired)| *retired > 0.0);
        if let Some((spent, retired)) = counted.filter(|_| is_within(cycles.at, cycles.window)) {
            self.cycles.look(spent / retired, cycles.at);
        }
        let delay = at(&columns.run_delay, slot);
        if let Some(total) = delay.usable().filter(|_| is_within(delay.at, Nanos::ZERO)) {
            let now = (delay.at, total);
            self.delays = Some([self.delays.map_or(now, |[first, _]| first), now]);
        }
    }

    /// The time that threads waited, a second; None: too little was seen.
    fn waiting(&self) -> Option<f64> {
        let [(from, first), (to, last)] = self.delays?;
        (to >= from + Nanos(PAUSE.0 / 2)).then(|| (last.max(first) - first).0 as f64 / (to - from).0 as f64)
    }

    fn measured(&self) -> Measured {
        Measure::ALL.map(|measure| match measure {
            Measure::Memory => self.memory.median(),
            Measure::Cycles => self.cycles.median(),
            Measure::Waiting => self.waiting(),
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Stage {
    /// No search.
    #[default]
    Idle,
    /// The next pause may not begin yet.
    Waits(Nanos),
    /// Looks without a pause, from this time on.
    Before(Nanos),
    /// The pause was asked for at this time, by the plan of this number.
    Asked(Nanos, u64),
    /// It began.
    Paused(Nanos),
}

/// What a search showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Named {
    /// This workload, by its pauses.
    One(WorkloadId),
    /// None: no verdict.
    None,
    /// The host cannot pause single workloads.
    Impossible,
}

/// The search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Pausing {
    suspects: Suspects,
    victim: Option<WorkloadId>,
    /// The workload whose turn it is.
    next: Option<WorkloadId>,
    stage: Stage,
    seen: Seen,
    before: Measured,
    /// What the host leaves between the end of a pause and the next.
    gap: Nanos,
    ended_at: Option<Nanos>,
    searches: u64,
    named: Option<(Named, Nanos)>,
}

impl Pausing {
    /// Is a search under way?
    pub fn is_on(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Was this pause asked for here?
    pub fn is_own(&self, id: WorkloadId) -> bool {
        self.victim == Some(id) && self.is_on()
    }

    /// What the last search showed, while it holds.
    pub fn named(&self, now: Nanos) -> Option<Named> {
        self.named.filter(|(_, until)| now < *until).map(|(named, _)| named)
    }

    /// Did a stage of looks begin just now?
    pub fn is_new(&self, now: Nanos) -> bool {
        matches!(self.stage, Stage::Before(since) if since == now)
    }

    /// Everything is as at first.
    pub fn forget(&mut self) {
        (self.stage, self.victim, self.next, self.named) = (Stage::Idle, None, None, None);
    }

    pub fn begin(&mut self, victim: WorkloadId, candidates: impl Iterator<Item = WorkloadId>, now: Nanos) {
        self.searches += 1;
        self.suspects.begin(candidates, self.searches);
        (self.victim, self.ended_at) = (Some(victim), None);
        self.next = self.suspects.draw();
        self.listen(now);
    }

    fn listen(&mut self, now: Nanos) {
        (self.stage, self.seen) = (Stage::Before(now), Seen::from(now));
    }

    /// A pause began.
    pub fn began(&mut self, now: Nanos) {
        let shows_at = now + KnobKind::Pause.effect_latency();
        (self.stage, self.seen) = (Stage::Paused(shows_at), Seen::from(shows_at));
    }

    /// The workload ran on in its pause: nothing is taken in.
    pub fn spared(&mut self, now: Nanos) {
        if matches!(self.stage, Stage::Paused(_)) {
            self.stage = Stage::Asked(now, u64::MAX);
        }
    }

    /// A pause ended: what it says is taken in.
    pub fn ended(&mut self, now: Nanos, plan: &mut Plan) {
        if let (Stage::Paused(_), Some(id)) = (self.stage, self.next) {
            self.suspects.paused(id, &self.before, &self.seen.measured());
        }
        self.next = self.suspects.draw();
        self.ended_at = Some(now);
        self.stage = Stage::Waits(now + self.gap.max(PAUSE) - PAUSE);
        if self.next.is_none() {
            self.end(now, plan);
        }
    }

    fn end(&mut self, now: Nanos, plan: &mut Plan) {
        self.stage = Stage::Idle;
        let found = self.suspects.named();
        self.named = Some((found.map_or(Named::None, |suspect| Named::One(suspect.id)), now + HOLDS));
        let victim = self.victim;
        match found {
            Some(found) => {
                let what = match found.by {
                    Measure::Memory => "memory was faster",
                    Measure::Cycles => "the victim took fewer cycles an instruction",
                    Measure::Waiting => "the victim waited less for CPUs",
                };
                let text = format!("the aggressor: {what} in {} of {} pauses of it", found.better, found.pauses);
                plan.note(NoteKind::Because, Some(found.id), text);
            }
            None => {
                plan.note(NoteKind::Because, victim, "no aggressor: no pauses of one workload made others better off")
            }
        }
    }

    /// The host refused a pause.
    pub fn refused(&mut self, number: u64, now: Nanos, why: &Refusal, plan: &mut Plan) {
        let Stage::Asked(_, plan_asked) = self.stage else { return };
        if plan_asked != number {
            return;
        }
        match why {
            Refusal::DutyCycle(until) => {
                // Of the solo runs before the first pause it says nothing.
                self.gap = self.ended_at.map_or(Nanos::ZERO, |ended| (*until - ended).min(PATIENCE));
                self.stage = Stage::Waits(if *until > now + PAUSE { *until - PAUSE } else { now });
            }
            other => {
                plan.note(NoteKind::Warning, self.victim, format!("no pauses: {other}"));
                self.stage = Stage::Idle;
                let holds = if matches!(other, Refusal::Unsupported(_)) { Nanos::MAX } else { now + retry::FIRST };
                self.named = Some((Named::Impossible, holds));
            }
        }
    }

    /// One step of the search.
    pub fn step(&mut self, view: &View, plan: &mut Plan) -> Wake {
        let now = view.now;
        match self.stage {
            Stage::Idle => return Wake::OnEvent,
            Stage::Waits(until) if now < until => return Wake::At(until),
            Stage::Waits(_) => self.listen(now),
            Stage::Before(since) => {
                let (Some(victim), Some(next)) = (self.victim, self.next) else { return Wake::OnEvent };
                self.seen.look(view, victim);
                let before = self.seen.measured();
                let any = before.iter().any(Option::is_some);
                // The canary is waited for a little longer than others.
                let is_seen = before[Measure::Memory as usize].is_some() || any && now >= since + PAUSE + PAUSE;
                if now >= since + PAUSE && is_seen {
                    self.before = before;
                    plan.leases.push(LeaseRequest::Begin(Lease::pausing(next, victim, PAUSE)));
                    self.stage = Stage::Asked(now, plan.number);
                    return Wake::At(now + PATIENCE);
                }
                if now >= since + PATIENCE {
                    // Nothing is measured.
                    self.end(now, plan);
                    return Wake::OnEvent;
                }
            }
            Stage::Asked(at, _) if now >= at + PATIENCE => self.listen(now),
            Stage::Asked(at, _) => return Wake::At(at + PATIENCE),
            Stage::Paused(_) => {
                if let Some(victim) = self.victim {
                    self.seen.look(view, victim);
                }
            }
        }
        Wake::At(now + LOOK)
    }
}
