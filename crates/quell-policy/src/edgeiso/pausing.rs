//! The aggressor where nothing counts who moves bytes (not in the text): best-effort workloads are paused for a moment, one
//! after the other in random order, and memory's slowdown in each pause is compared with that just before, see
//! [`crate::kit::suspects`].

use quell_model::{KnobKind, Lease, LeaseRequest, Nanos, NoteKind, Plan, Refusal, View, Wake, WorkloadId};
use serde::{Deserialize, Serialize};

use crate::kit::retry;
use crate::kit::suspects::{PAUSE, Suspects};

/// How often memory's slowdown is looked at before and in a pause.
pub(super) const LOOK: Nanos = Nanos::from_millis(2);
/// The canary's value is a median of looks: those of this part of a pause, at its end, are of the pause alone.
const LAST: usize = 5;
/// What was found holds for this time.
const HOLDS: Nanos = Nanos::from_secs(60);
/// A host that does not answer is asked again after this time.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// The last looks at memory's slowdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Looks {
    values: [f64; LAST],
    count: u32,
    at: Nanos,
}

impl Looks {
    fn look(&mut self, view: &View, since: Nanos) {
        let slowdown = view.machine.memory_slowdown;
        let is_new = slowdown.at > self.at && slowdown.at - slowdown.window >= since;
        if let Some(times) = slowdown.usable().filter(|_| is_new && slowdown.at <= view.now) {
            self.values[self.count as usize % LAST] = times;
            (self.count, self.at) = (self.count + 1, slowdown.at);
        }
    }

    /// The median of the last ones; None: too few.
    fn median(&self) -> Option<f64> {
        let mut values = self.values;
        values.sort_unstable_by(f64::total_cmp);
        (self.count as usize >= LAST).then(|| values[LAST / 2])
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Stage {
    /// No search.
    #[default]
    Idle,
    /// The next pause may not begin yet.
    Waits(Nanos),
    /// Memory's slowdown without a pause, from this time on.
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
    looks: Looks,
    before: f64,
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
        (self.stage, self.looks) = (Stage::Before(now), Looks { at: now, ..Looks::default() });
    }

    /// A pause began.
    pub fn began(&mut self, now: Nanos) {
        let shows_at = now + KnobKind::Pause.effect_latency();
        (self.stage, self.looks) = (Stage::Paused(shows_at), Looks { at: shows_at, ..Looks::default() });
    }

    /// The workload ran on in its pause: nothing is taken in.
    pub fn spared(&mut self, now: Nanos) {
        if matches!(self.stage, Stage::Paused(_)) {
            self.stage = Stage::Asked(now, u64::MAX);
        }
    }

    /// A pause ended: what it says is taken in.
    pub fn ended(&mut self, now: Nanos, plan: &mut Plan) {
        let with = self.looks.median().filter(|_| matches!(self.stage, Stage::Paused(_)));
        if let (Some(with), Some(id)) = (with, self.next) {
            self.suspects.paused(id, self.before, with);
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
            Some(suspect) => plan.note(
                NoteKind::Because,
                Some(suspect.id),
                format!("the aggressor: memory was faster in {} of {} pauses of it", suspect.better, suspect.pauses),
            ),
            None => plan.note(NoteKind::Because, victim, "no aggressor: no pauses of one workload made memory faster"),
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
                self.looks.look(view, since);
                let (Some(victim), Some(next)) = (self.victim, self.next) else { return Wake::OnEvent };
                if now >= since + PAUSE
                    && let Some(before) = self.looks.median()
                {
                    self.before = before;
                    plan.leases.push(LeaseRequest::Begin(Lease::pausing(next, victim, PAUSE)));
                    self.stage = Stage::Asked(now, plan.number);
                    return Wake::At(now + PATIENCE);
                }
                if now >= since + PATIENCE {
                    // Memory's slowdown is not measured.
                    self.end(now, plan);
                    return Wake::OnEvent;
                }
            }
            Stage::Asked(at, _) if now >= at + PATIENCE => self.listen(now),
            Stage::Asked(at, _) => return Wake::At(at + PATIENCE),
            Stage::Paused(since) => self.looks.look(view, since),
        }
        Wake::At(now + LOOK)
    }
}
