//! Each search is a trial (`verify`; not in the text): see [`crate::kit::trial`].

use quell_model::trial::Finding;
use quell_model::view::at;
use quell_model::{KnobKind, Nanos, Plan, Trial, View};

use super::super::HisConfig;
use super::super::decide::Technique;
use super::super::isolate::{Direction, Isolation};
use super::{Group, UnderWay};
use crate::kit::contention::Resource;
use crate::kit::profile::Usage;
use crate::kit::trial::{Attempt, LEAST, Setting, begun, numbered};

impl Setting for Isolation {
    fn level(&self, trial: &Trial) -> Option<u32> {
        match trial.knob {
            KnobKind::CacheWays => self.ways,
            KnobKind::MaxFrequencyKhz => self.khz,
            KnobKind::Throttle => self.throttle,
            _ if trial.on.is_some() => Some(self.cores),
            _ => Some(self.background),
        }
    }
}

impl Group {
    /// Takes in a look of what trials are judged by.
    pub(super) fn gauge(&mut self, view: &View, co_run: &Usage, config: &HisConfig) {
        // Where there are many workloads, the host reads them less often than each look.
        let run_time =
            |slot: usize| Some(at(&view.workloads.run_time, slot)).filter(|sample| sample.usable().is_some());
        let each = self.place.background.iter().filter_map(|id| run_time(id.index()));
        let total = each.map(|sample| (sample.at, sample.value)).reduce(|(at, sum), one| (at.min(one.0), sum + one.1));
        let before = std::mem::replace(&mut self.work, total);
        let rate = |(from, first): (Nanos, Nanos), (to, last): (Nanos, Nanos)| {
            (to > from && last >= first).then(|| (last - first).0 as f64 / (to - from).0 as f64)
        };
        let work = before.zip(self.work).and_then(|(one, other)| rate(one, other));
        let contention = self.solo.and_then(|solo| {
            let contention = self.contention(&solo.usage, co_run, config);
            let resource = self.trials.running().map(|trial| trial.resource);
            resource.or_else(|| contention.dominant(|_| 0.0)).map_or(Some(0.0), |resource| contention.of(resource))
        });
        self.gauge.read(view, self.place.foreground, contention, work);
    }

    /// Goes on with the trial under way, or looks again at what an earlier one kept; true: the loop may go on.
    pub(super) fn verify(&mut self, view: &View, config: &HisConfig, plan: &mut Plan) -> bool {
        let Some(attempt) = self.trials.attempt() else { return !self.look_again(view, config, plan) };
        let gauge = self.gauge;
        if self.trials.look(&gauge, view.now, plan) {
            self.write_trial(view, plan);
        }
        if self.trials.running().is_none() {
            self.search = None;
            let initial = Isolation::initial(view, &self.place);
            let uses = numbered(&Technique::ALL, attempt.technique)
                .is_some_and(|technique| self.isolation.uses(technique, &initial));
            if !uses {
                self.trials.memory.lifted(attempt.technique);
            }
        }
        self.under_way.is_none()
    }

    fn write_trial(&mut self, view: &View, plan: &mut Plan) {
        let before = std::mem::replace(&mut self.isolation, *self.trials.set(view.now));
        let (now, then) = (before, self.isolation);
        let differs = |technique| match technique {
            Technique::CacheWays => now.ways != then.ways,
            Technique::Frequency => now.khz != then.khz,
            Technique::Throttle => now.throttle != then.throttle,
            // Both are written by either.
            Technique::BackgroundCores => (now.cores, now.background) != (then.cores, then.background),
            Technique::ForegroundCores => false,
        };
        for technique in Technique::ALL.into_iter().filter(|technique| differs(*technique)) {
            if self.ladder.has(technique) {
                self.write_step(technique, view, plan);
            }
        }
        self.trials.set(self.settling.until());
        if !plan.knobs.is_empty() {
            // Refused, it is written again.
            self.under_way = Some(UnderWay { plan: plan.number, technique: None, before: self.isolation });
        }
    }

    /// Lifts what an earlier trial kept, if it is time to see whether it is still of use.
    fn look_again(&mut self, view: &View, config: &HisConfig, plan: &mut Plan) -> bool {
        if self.search.is_some() {
            return false;
        }
        let load = self.gauge.load();
        let Some(attempt) = self.trials.memory.due(view.now, |_| (load.count >= LEAST).then_some(load.median)) else {
            return false;
        };
        let Some(technique) = numbered(&Technique::ALL, attempt.technique) else { return false };
        let initial = Isolation::initial(view, &self.place);
        if !self.isolation.uses(technique, &initial) {
            self.trials.memory.lifted(attempt.technique);
            return false;
        }
        if self.gauge.judge(attempt.resource).is_none() {
            return false;
        }
        let diff = self
            .co_run
            .zip(self.solo)
            .and_then(|(co_run, solo)| self.contention(&solo.usage, &co_run, config).of(attempt.resource));
        let mut steps = 0;
        while self.isolation.uses(technique, &initial)
            && let Some(next) = self.isolation.next(technique, Direction::Weaken, view, &self.place)
        {
            let before = std::mem::replace(&mut self.isolation, next);
            let about = (technique, attempt.resource, diff.unwrap_or_default());
            self.begin_or_go_on(about, Direction::Weaken, &before, view, plan);
            steps += 1;
        }
        if steps == 0 {
            self.trials.memory.looked(attempt.technique, load.median, view.now);
            return false;
        }
        self.write_step(technique, view, plan);
        self.under_way = Some(UnderWay { plan: plan.number, technique: None, before: self.isolation });
        self.trials.search_ended(self.settling.until());
        true
    }

    /// Has it not failed too often?
    pub(super) fn may_try(&self, technique: Technique, resource: Resource, direction: Direction) -> bool {
        let attempt = self.attempt(technique, resource);
        self.trials.running().is_some() || self.trials.may(&attempt, direction == Direction::Weaken)
    }

    fn attempt(&self, technique: Technique, resource: Resource) -> Attempt {
        Attempt { technique: technique as u8, resource, victim: self.place.foreground }
    }

    /// A step was made: the first of a trial or a further one.
    pub(super) fn begin_or_go_on(
        &mut self,
        (technique, resource, diff): (Technique, Resource, f64),
        direction: Direction,
        before: &Isolation,
        view: &View,
        plan: &mut Plan,
    ) {
        let shows_at = view.now + technique.knob().effect_latency();
        if self.trials.running().is_some() {
            return self.trials.stepped(&self.isolation, shows_at);
        }
        let releases = direction == Direction::Weaken;
        let victim = self.place.foreground;
        let is_its = matches!(technique, Technique::CacheWays | Technique::ForegroundCores);
        let only = Some(&self.place.background).filter(|others| others.len() == 1).map(|others| others[0]);
        let trial = Trial {
            aggressor: only,
            on: is_its.then_some(victim),
            ..begun(victim, (resource, diff), technique.knob(), releases)
        };
        let attempt = self.attempt(technique, resource);
        self.trials.begin(attempt, trial, releases, &self.gauge, (before, &self.isolation), shows_at);
        self.trials.announce(plan);
    }

    /// It seems to be another phase: its trial is undone.
    pub(super) fn break_off_trial(&mut self, view: &View, plan: &mut Plan) {
        if self.trials.abandon(Finding::Overtaken, plan) {
            self.isolation = *self.trials.set(view.now);
            self.rewrite_at = Some(view.now);
        }
    }

    /// It is another phase: what was kept is undone, and what failed is forgotten.
    pub(super) fn forget_trials(&mut self, view: &View) {
        let initial = Isolation::initial(view, &self.place);
        while let Some(kept) = self.trials.memory.phase(self.place.foreground) {
            let Some(technique) = numbered(&Technique::ALL, kept) else { continue };
            while self.isolation.uses(technique, &initial)
                && let Some(next) = self.isolation.next(technique, Direction::Weaken, view, &self.place)
            {
                self.isolation = next;
                self.rewrite_at = Some(view.now);
            }
        }
    }

    /// The group's members or CPUs are others: what was tried was beside others.
    pub(super) fn abandon_trials(&mut self, plan: &mut Plan) {
        if self.trials.abandon(Finding::Overtaken, plan) {
            self.isolation = *self.trials.set(Nanos::ZERO);
        }
        self.trials.memory.forget();
    }
}
