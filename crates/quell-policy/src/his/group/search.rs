//! Choosing a technique, and the search for its configuration.

use quell_model::{NoteKind, Plan, View};

use super::super::HisConfig;
use super::super::decide::Technique;
use super::super::isolate::{Direction, Isolation};
use super::{Group, Search, UnderWay};
use crate::kit::contention::{Contention, Resource};
use crate::kit::profile::{Solo, Usage};

impl Group {
    /// Chooses an isolation technique and searches its configurations.
    pub(super) fn schedule(&mut self, view: &View, solo: &Solo, co_run: &Usage, config: &HisConfig, plan: &mut Plan) {
        let contention = self.contention(&solo.usage, co_run, config);
        if self.phase_changed(&contention, &solo.usage, co_run, config) {
            self.begin_phase(view, plan);
            return;
        }
        if self.trials.running().is_some() && !self.trials.is_searching() {
            return;
        }
        // No threshold lies below the noise of what is compared (ours).
        let noise = |resource| solo.noise(resource, config.load_aware);
        let threshold = |resource| config.threshold.max(noise(resource));
        let dominant = contention.dominant(threshold);
        if let Some(mut search) = self.search.take() {
            let Some(diff) = contention.of(search.resource) else { return };
            let moved = (diff - search.last).abs();
            let stop = config.stop.max(noise(search.resource));
            search.mismatches =
                if dominant.is_some_and(|other| other != search.resource) { search.mismatches + 1 } else { 0 };
            let is_over = diff.abs() <= stop || moved <= stop || search.mismatches >= config.mismatches;
            let direction = match diff {
                diff if diff < 0.0 => Some(Direction::Strengthen),
                diff if diff > threshold(search.resource) => Some(Direction::Weaken),
                _ => None,
            };
            search.last = diff;
            // How much of it is needed is measured, not searched by the difference.
            let is_over = is_over || direction.is_some_and(|to| self.trials.turns(to == Direction::Weaken));
            if let Some(direction) = direction.filter(|_| !is_over)
                && self.enforce((search.technique, search.resource, diff), direction, view, config, plan)
            {
                self.search = Some(search);
                return;
            }
            if self.trials.is_searching() {
                return self.trials.search_ended(view.now);
            }
        }
        // A trial needs to know how it was before.
        if config.verify && dominant.is_some_and(|resource| self.gauge.judge(resource).is_none()) {
            return;
        }
        match dominant {
            Some(resource) => self.begin_search(resource, contention.of(resource), view, config, plan),
            None => {
                self.said_exhausted.forget();
                self.say_noise(solo, co_run, &contention, config, plan);
                self.weaken(&contention, threshold, view, config, plan);
            }
        }
    }

    fn begin_search(
        &mut self,
        resource: Resource,
        diff: Option<f64>,
        view: &View,
        config: &HisConfig,
        plan: &mut Plan,
    ) {
        let techniques = Technique::against(resource, config.throttle);
        for _ in techniques {
            let Some(technique) = self.ladder.choose(techniques) else { break };
            let last = diff.unwrap_or_default();
            if self.enforce((technique, resource, last), Direction::Strengthen, view, config, plan) {
                self.search = Some(Search { technique, resource, last, mismatches: 0 });
                plan.note(NoteKind::Because, Some(self.foreground()), reason(technique, resource));
                return;
            }
        }
        if self.said_exhausted.first() {
            let text = format!("contention for {} remains, and every isolation is used up", resource.name());
            plan.note(NoteKind::Warning, Some(self.foreground()), text);
        }
    }

    /// The foreground has more of a resource than alone: what was taken last for it goes back to the background.
    fn weaken(
        &mut self,
        contention: &Contention,
        threshold: impl Fn(Resource) -> f64,
        view: &View,
        config: &HisConfig,
        plan: &mut Plan,
    ) {
        let initial = Isolation::initial(view, &self.place);
        for resource in Resource::ALL {
            let Some(diff) = contention.of(resource).filter(|diff| *diff > threshold(resource)) else { continue };
            for &technique in Technique::against(resource, config.throttle).iter().rev() {
                if self.isolation.uses(technique, &initial)
                    && self.ladder.has(technique)
                    && self.enforce((technique, resource, diff), Direction::Weaken, view, config, plan)
                {
                    self.search = Some(Search { technique, resource, last: diff, mismatches: 0 });
                    return;
                }
            }
        }
    }

    /// Says once a solo run that what a fixed threshold would take for contention is noise.
    fn say_noise(&mut self, solo: &Solo, co_run: &Usage, contention: &Contention, config: &HisConfig, plan: &mut Plan) {
        let diffs = [Resource::Llc, Resource::MemoryBandwidth].map(|resource| (resource, contention.of(resource)));
        if let Some(excuse) = solo.excuse(co_run, &diffs, config.threshold)
            && self.said_noise.first()
        {
            plan.note(NoteKind::Because, Some(self.foreground()), excuse.to_string());
        }
    }

    /// It moves hardly any bytes any more: nothing is taken for them.
    pub(super) fn lift_of_bandwidth(&mut self, view: &View) {
        let initial = Isolation::initial(view, &self.place);
        for &technique in Technique::against(Resource::MemoryBandwidth, true) {
            while self.isolation.uses(technique, &initial)
                && let Some(next) = self.isolation.next(technique, Direction::Weaken, view, &self.place)
            {
                self.isolation = next;
                self.rewrite_at = Some(view.now);
            }
        }
    }

    /// CPU contention: more threads than two a core (the authors' code; the text does not state it).
    fn threads_diff(&self, co_run: &Usage) -> Option<f64> {
        let threads = co_run.threads.filter(|threads| *threads > 0)?;
        Some((f64::from(2 * self.isolation.cores) / f64::from(threads) - 1.0).min(0.0))
    }

    /// The differences by which it searches.
    pub(super) fn contention(&self, solo: &Usage, co_run: &Usage, config: &HisConfig) -> Contention {
        let contention = Contention::between(solo, co_run).with_cpu(self.threads_diff(co_run));
        if config.load_aware { contention.per_cpu_time(solo, co_run) } else { contention }
    }

    fn phase_changed(&mut self, contention: &Contention, solo: &Usage, co_run: &Usage, config: &HisConfig) -> bool {
        let more = |resource| contention.of(resource).is_some_and(|diff| diff > config.phase_change);
        let threads = solo.threads.zip(co_run.threads).is_some_and(|(solo, co_run)| solo != co_run);
        // Contention for the LLC moves more bytes by itself, and so does a trial.
        let is_explained = config.verify && (self.is_acquitted || self.trials.running().is_some());
        let another = threads || (!is_explained && Resource::ALL.into_iter().any(more));
        self.strikes = if another { self.strikes + 1 } else { 0 };
        self.strikes >= config.phase_strikes
    }

    /// A new phase: its solo run is profiled, and the search begins anew from the isolations in force.
    fn begin_phase(&mut self, view: &View, plan: &mut Plan) {
        plan.note(NoteKind::Because, Some(self.foreground()), "its phase changed: it is profiled again");
        self.earlier = self.solo.map(|solo| solo.usage);
        self.solo = None;
        self.strikes = 0;
        self.search = None;
        self.ladder.forget_tries();
        self.next_look = view.now;
        self.break_off_trial(view, plan);
    }

    /// One configuration step against a contention; false where there is none.
    fn enforce(
        &mut self,
        (technique, resource, diff): (Technique, Resource, f64),
        direction: Direction,
        view: &View,
        config: &HisConfig,
        plan: &mut Plan,
    ) -> bool {
        if config.verify && !self.may_try(technique, resource, direction) {
            return false;
        }
        let Some(next) = self.isolation.next(technique, direction, view, &self.place) else { return false };
        let before = std::mem::replace(&mut self.isolation, next);
        if config.verify {
            self.begin_or_go_on((technique, resource, diff), direction, &before, view, plan);
        }
        self.write_step(technique, view, plan);
        self.under_way = Some(UnderWay { plan: plan.number, technique: Some(technique), before });
        true
    }

    /// Writes the knobs of a technique after a step of it.
    pub(super) fn write_step(&mut self, technique: Technique, view: &View, plan: &mut Plan) {
        self.touched[technique as usize] = true;
        self.isolation.write(technique, view, &self.place, plan);
        // Frequencies belong to CPUs: they follow when the CPUs move.
        if technique.is_cores() && self.touched[Technique::Frequency as usize] {
            self.isolation.write(Technique::Frequency, view, &self.place, plan);
        }
        self.disturbed(technique.knob(), view.now);
    }
}

fn reason(technique: Technique, resource: Resource) -> &'static str {
    match (technique, resource) {
        (Technique::CacheWays, _) => "the LLC is its dominant contention: cache ways",
        (Technique::Frequency, _) => "memory bandwidth is its dominant contention: frequency of the background",
        (Technique::Throttle, _) => "memory bandwidth is its dominant contention: memory throttle of the background",
        (Technique::ForegroundCores, _) => "the CPU is its dominant contention: cores",
        (_, Resource::Llc) => "the LLC is its dominant contention: fewer cores of the background",
        _ => "memory bandwidth is its dominant contention: fewer cores of the background",
    }
}
