//! Each search is a trial (`verify`; not in the text): see [`crate::kit::trial`].

use quell_model::trial::{Finding, KnownBy};
use quell_model::{KnobKind, Nanos, NoteKind, Plan, Quality, Trial, View, WorkloadId};

use super::isolation::{Direction, Isolation, Step};
use super::pausing::Named;
use super::profiler::Mode;
use super::search::Isolator;
use super::task::FoundBy;
use super::technique::Technique;
use super::{EdgeIso, UnderWay};
use crate::kit::trial::{Attempt, Setting, begun, numbered};

impl Setting for Isolation {
    fn level(&self, trial: &Trial) -> Option<u32> {
        let share = trial.on.and_then(|id| self.of(id));
        match trial.knob {
            KnobKind::CacheWays => self.ways.map(|(_, own)| own),
            KnobKind::GpuFrequencyKhz => self.gpu_khz,
            KnobKind::Quota => share.and_then(|share| self.quota(share)).map(|cpus| cpus.0),
            _ => share.map(|share| share.cpus.len() as u32),
        }
    }
}

impl EdgeIso {
    /// The settings without this technique; None: it is not in force.
    #[must_use]
    pub fn without(&self, technique: Technique, view: &View) -> Option<Vec<quell_model::KnobSetting>> {
        let mut lifted = self.isolation.clone();
        for &super::isolation::Share { id: victim, .. } in &self.isolation.shares {
            let step = Step { technique, direction: Direction::Weaken, victim, target: None };
            while lifted.uses(technique) && lifted.step(&step, view) {}
        }
        if lifted == self.isolation {
            return None;
        }
        let mut plan = Plan::default();
        lifted.write(technique, view, &mut plan);
        Some(plan.knobs)
    }

    /// What the last search for an aggressor by pauses showed, while it holds.
    #[must_use]
    pub fn named(&self, now: Nanos) -> Option<Named> {
        self.profiler.pausing.named(now)
    }

    /// Is an aggressor being searched by pauses?
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.profiler.pausing.is_on()
    }

    /// Searches the aggressor of this victim by pauses, as it does itself where a guess is all there is; false: there is one
    /// candidate at most, or something else is under way.
    pub fn search_aggressor(&mut self, victim: WorkloadId, now: Nanos) -> bool {
        let candidates = || self.tasks.iter().filter(|task| !task.is_critical).map(|task| task.id);
        let is_free = self.profiler.mode == Mode::CoRun && self.trials.running().is_none();
        if !is_free || self.profiler.pausing.is_on() || candidates().count() < 2 {
            return false;
        }
        self.profiler.pausing.begin(victim, candidates(), now);
        true
    }

    /// The aggressor where CPU time alone would be a guess; None: it is being searched.
    pub(super) fn by_pauses(
        &mut self,
        victim: WorkloadId,
        guess: Option<(WorkloadId, KnownBy)>,
        now: Nanos,
    ) -> Option<Option<(WorkloadId, KnownBy)>> {
        match self.profiler.pausing.named(now) {
            Some(Named::One(id)) => Some(Some((id, KnownBy::Pausing))),
            Some(Named::None) => Some(None),
            Some(Named::Impossible) => Some(guess),
            None if self.search_aggressor(victim, now) => None,
            None => Some(guess),
        }
    }

    /// Takes in a look of what trials are judged by.
    pub(super) fn gauge(&mut self, view: &View) {
        let others = || self.tasks.iter().filter(|task| !task.is_critical);
        let sum = |rate: fn(&super::Task) -> Option<f64>| others().filter_map(rate).reduce(|one, more| one + more);
        let work = sum(|task| task.co_run.instructions).or_else(|| sum(|task| task.co_run.cpus));
        let threshold = self.config.threads_per_core;
        let running = self.trials.running().map(|trial| (trial.victim, trial.resource));
        for task in self.tasks.iter_mut().filter(|task| task.is_critical) {
            let contention = match running {
                Some((victim, resource)) if victim == task.id => task.diffs.of(resource, threshold),
                _ => task.diffs.dominant(threshold).map(|(_, diff)| diff),
            };
            task.gauge.read(view, task.id, contention, work);
        }
    }

    /// Goes on with the trial under way, or looks again at what an earlier one kept; true: the algorithm may go on.
    pub(super) fn verify(&mut self, view: &View, plan: &mut Plan) -> bool {
        let Some(&Trial { victim, .. }) = self.trials.running() else { return !self.look_again(view, plan) };
        let Some(gauge) = self.tasks.iter().find(|task| task.id == victim).map(|task| task.gauge) else { return false };
        let technique = self.trials.attempt().and_then(|attempt| numbered(&Technique::ALL, attempt.technique));
        if self.trials.look(&gauge, view.now, plan) {
            self.write_trial(view, plan);
        }
        if self.trials.running().is_none() {
            self.trial_ended(technique);
        }
        self.trials.is_searching() && self.knobs.under_way.is_none()
    }

    /// Its search is over: what remains is met by the next technique.
    fn trial_ended(&mut self, technique: Option<Technique>) {
        if let Some(technique) = technique.filter(|technique| !self.isolation.uses(*technique)) {
            self.trials.memory.lifted(technique as u8);
        }
        if let Some(isolator) = &mut self.isolator {
            let task = self.tasks.iter().find(|task| task.id == isolator.victim);
            let diff = task.and_then(|task| task.diffs.of(isolator.resource, self.config.threads_per_core));
            isolator.last = diff.unwrap_or(isolator.last);
            isolator.is_idle = false;
        }
    }

    /// The trial's step is the isolation in force from now on.
    pub(super) fn take_step(&mut self, shows_at: Nanos) {
        self.before.clone_from(&self.isolation);
        self.isolation.clone_from(self.trials.set(shows_at));
        // What was ever set has to be written, lifted or not.
        for share in &mut self.isolation.shares {
            share.had_quota |= self.before.of(share.id).is_some_and(|before| before.had_quota);
        }
    }

    fn write_trial(&mut self, view: &View, plan: &mut Plan) {
        self.take_step(view.now);
        for technique in Technique::ALL {
            let is_other = technique != Technique::VictimCores && differs(technique, &self.before, &self.isolation);
            if is_other && self.ladder.has(technique) {
                self.write_step(technique, view, plan);
            }
        }
        self.trials.set(self.knobs.settling.until());
        if plan.knobs.is_empty() {
            return;
        }
        // Refused, it is written again.
        self.knobs.under_way = Some(UnderWay { plan: plan.number, technique: None });
    }

    /// Lifts what an earlier trial kept, if it is time to see whether it is still of use.
    fn look_again(&mut self, view: &View, plan: &mut Plan) -> bool {
        let load = |id: WorkloadId| {
            let load = self.tasks.iter().find(|task| task.id == id)?.gauge.load();
            (load.count >= crate::kit::trial::LEAST).then_some(load.median)
        };
        let Some(attempt) = self.trials.memory.due(view.now, load) else { return false };
        let Some(technique) = numbered(&Technique::ALL, attempt.technique) else { return false };
        let Some(task) = self.tasks.iter().find(|task| task.id == attempt.victim).copied() else { return false };
        if !self.isolation.uses(technique) {
            self.trials.memory.lifted(attempt.technique);
            return false;
        }
        if task.gauge.judge(attempt.resource).is_none() {
            return false;
        }
        let isolator = Isolator {
            technique,
            resource: attempt.resource,
            found_by: FoundBy::InstructionRate,
            victim: attempt.victim,
            target: None,
            known_by: KnownBy::Beside,
            last: 0.0,
            is_idle: true,
            mismatches: 0,
        };
        let step = Step { technique, direction: Direction::Weaken, victim: attempt.victim, target: None };
        self.before.clone_from(&self.isolation);
        let mut steps = 0;
        while self.isolation.uses(technique) && self.isolation.step(&step, view) {
            self.begin_or_go_on(&isolator, Direction::Weaken, view, plan);
            steps += 1;
        }
        if steps == 0 {
            self.trials.memory.looked(attempt.technique, task.gauge.load().median, view.now);
            return false;
        }
        self.isolator = None;
        self.write_step(technique, view, plan);
        self.knobs.under_way = Some(UnderWay { plan: plan.number, technique: None });
        self.trials.search_ended(self.knobs.settling.until());
        true
    }

    /// Has it not failed too often?
    pub(super) fn may_try(&self, isolator: &Isolator, direction: Direction) -> bool {
        let attempt = attempt(isolator);
        !self.config.verify
            || self.trials.running().is_some()
            || self.trials.may(&attempt, direction == Direction::Weaken)
    }

    /// A step was made, from `before`: the first of a trial or a further one.
    pub(super) fn begin_or_go_on(&mut self, isolator: &Isolator, direction: Direction, view: &View, plan: &mut Plan) {
        let shows_at = view.now + isolator.technique.knob().effect_latency();
        if self.trials.running().is_some() {
            return self.trials.stepped(&self.isolation, shows_at);
        }
        let Some(task) = self.tasks.iter().find(|task| task.id == isolator.victim).copied() else { return };
        // A search that comes back to where it began has the same setting there.
        for (before, now) in self.before.shares.iter_mut().zip(&self.isolation.shares) {
            before.had_quota = now.had_quota;
        }
        let diff = task.diffs.of(isolator.resource, self.config.threads_per_core).unwrap_or(isolator.last);
        let is_counted = task.co_run.memory_bandwidth.is_some() && !task.is_beside;
        let releases = direction == Direction::Weaken;
        let on = match isolator.technique {
            Technique::CacheWays | Technique::VictimCores => Some(isolator.victim),
            Technique::GpuFrequency => None,
            technique if releases => self.before.most(technique),
            _ => isolator.target,
        };
        let knob = isolator.technique.knob();
        let trial = Trial {
            by_latency: isolator.found_by == FoundBy::Latency,
            quality: if is_counted { Quality::Exact } else { Quality::Estimated },
            aggressor: isolator.target.or(on.filter(|id| *id != task.id)),
            known_by: isolator.known_by,
            on,
            ..begun(task.id, (isolator.resource, diff), knob, releases)
        };
        self.trials.begin(attempt(isolator), trial, releases, &task.gauge, (&self.before, &self.isolation), shows_at);
        self.trials.announce(plan);
    }

    /// phase_change_detection: what it was tried in is over, too.
    pub(super) fn detect_phases(&mut self, view: &View, plan: &mut Plan) {
        let tried = self.trials.running().map(|trial| trial.victim);
        for at in 0..self.tasks.len() {
            let task = &mut self.tasks[at];
            if task.is_critical && task.phase_changed(&self.config, tried == Some(task.id)) {
                plan.note(NoteKind::Because, Some(task.id), "its phase changed: it is profiled again");
                task.begin_phase();
                let id = task.id;
                self.isolator = None;
                self.ladder.forget_tries();
                self.break_off_trial(id, view, plan);
            }
        }
    }

    /// A task seems to be in another phase: its trial is undone.
    pub(super) fn break_off_trial(&mut self, id: WorkloadId, view: &View, plan: &mut Plan) {
        if self.trials.running().is_some_and(|trial| trial.victim == id)
            && self.trials.abandon(Finding::Overtaken, plan)
        {
            self.take_step(view.now);
            self.knobs.rewrite_at = Some(view.now);
        }
    }

    /// It moves hardly any bytes any more: nothing is taken for them.
    pub(super) fn lift_of_bandwidth(&mut self, id: WorkloadId, view: &View) {
        for technique in [Technique::GpuFrequency, Technique::Cores] {
            let step = Step { technique, direction: Direction::Weaken, victim: id, target: None };
            while self.isolation.uses(technique) && self.isolation.step(&step, view) {
                self.knobs.rewrite_at = Some(view.now);
            }
        }
    }

    /// It is in another phase: what was kept for it is undone, and what failed is forgotten.
    pub(super) fn forget_trials(&mut self, id: WorkloadId, view: &View) {
        while let Some(kept) = self.trials.memory.phase(id) {
            let Some(technique) = numbered(&Technique::ALL, kept) else { continue };
            let step = Step { technique, direction: Direction::Weaken, victim: id, target: None };
            while self.isolation.uses(technique) && self.isolation.step(&step, view) {
                self.knobs.rewrite_at = Some(view.now);
            }
        }
    }
}

fn attempt(isolator: &Isolator) -> Attempt {
    Attempt { technique: isolator.technique as u8, resource: isolator.resource, victim: isolator.victim }
}

/// Is what a technique sets another in the two?
fn differs(technique: Technique, one: &Isolation, other: &Isolation) -> bool {
    let shares = |of: fn(&super::isolation::Share) -> (quell_model::CpuSet, u32)| {
        one.shares.iter().map(of).ne(other.shares.iter().map(of))
    };
    match technique {
        Technique::CacheWays => one.ways != other.ways,
        Technique::GpuFrequency => one.gpu_khz != other.gpu_khz,
        Technique::Quota => shares(|share| (quell_model::CpuSet::EMPTY, share.throttled)),
        Technique::Cores | Technique::VictimCores => shares(|share| (share.cpus, 0)),
    }
}
