//! Choosing a technique, and the search for its configuration.

use quell_model::{NoteKind, Plan, View};

use super::super::HisConfig;
use super::super::decide::Technique;
use super::super::isolate::{Direction, Isolation};
use super::{Group, Search, UnderWay};
use crate::kit::contention::{Contention, Resource};
use crate::kit::profile::Usage;

impl Group {
    /// Chooses an isolation technique and searches its configurations.
    pub(super) fn schedule(&mut self, view: &View, solo: &Usage, co_run: &Usage, config: &HisConfig, plan: &mut Plan) {
        let mut contention = Contention::between(solo, co_run).with_cpu(self.threads_diff(co_run));
        if config.load_aware {
            contention = contention.per_cpu_time(solo, co_run);
        }
        if self.phase_changed(&contention, solo, co_run, config) {
            self.begin_phase(view, plan);
            return;
        }
        let dominant = contention.dominant(config.threshold);
        if let Some(mut search) = self.search.take() {
            let Some(diff) = contention.of(search.resource) else { return };
            let moved = (diff - search.last).abs();
            search.mismatches =
                if dominant.is_some_and(|other| other != search.resource) { search.mismatches + 1 } else { 0 };
            let is_over = diff.abs() <= config.stop || moved <= config.stop || search.mismatches >= config.mismatches;
            let direction = match diff {
                diff if diff < 0.0 => Some(Direction::Strengthen),
                diff if diff > config.threshold => Some(Direction::Weaken),
                _ => None,
            };
            search.last = diff;
            if let Some(direction) = direction.filter(|_| !is_over)
                && self.enforce(search.technique, direction, view, plan)
            {
                self.search = Some(search);
                return;
            }
        }
        match dominant {
            Some(resource) => self.begin_search(resource, contention.of(resource), view, config, plan),
            None => {
                self.said_exhausted.forget();
                self.weaken(&contention, view, config, plan);
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
            if self.enforce(technique, Direction::Strengthen, view, plan) {
                self.search = Some(Search { technique, resource, last: diff.unwrap_or_default(), mismatches: 0 });
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
    fn weaken(&mut self, contention: &Contention, view: &View, config: &HisConfig, plan: &mut Plan) {
        let initial = Isolation::initial(view, &self.place);
        for resource in Resource::ALL {
            let Some(diff) = contention.of(resource).filter(|diff| *diff > config.threshold) else { continue };
            for &technique in Technique::against(resource, config.throttle).iter().rev() {
                if self.isolation.uses(technique, &initial)
                    && self.ladder.has(technique)
                    && self.enforce(technique, Direction::Weaken, view, plan)
                {
                    self.search = Some(Search { technique, resource, last: diff, mismatches: 0 });
                    return;
                }
            }
        }
    }

    /// CPU contention: more threads than two a core (the authors' code; the text does not state it).
    fn threads_diff(&self, co_run: &Usage) -> Option<f64> {
        let threads = co_run.threads.filter(|threads| *threads > 0)?;
        Some((f64::from(2 * self.isolation.cores) / f64::from(threads) - 1.0).min(0.0))
    }

    fn phase_changed(&mut self, contention: &Contention, solo: &Usage, co_run: &Usage, config: &HisConfig) -> bool {
        let more = |resource| contention.of(resource).is_some_and(|diff| diff > config.phase_change);
        let threads = solo.threads.zip(co_run.threads).is_some_and(|(solo, co_run)| solo != co_run);
        let another = threads || Resource::ALL.into_iter().any(more);
        self.strikes = if another { self.strikes + 1 } else { 0 };
        self.strikes >= config.phase_strikes
    }

    /// A new phase: its solo run is profiled, and the search begins anew from the isolations in force.
    fn begin_phase(&mut self, view: &View, plan: &mut Plan) {
        plan.note(NoteKind::Because, Some(self.foreground()), "its phase changed: it is profiled again");
        self.solo = None;
        self.strikes = 0;
        self.search = None;
        self.ladder.forget_tries();
        self.next_look = view.now;
    }

    /// One configuration step; false where there is none.
    fn enforce(&mut self, technique: Technique, direction: Direction, view: &View, plan: &mut Plan) -> bool {
        let Some(next) = self.isolation.next(technique, direction, view, &self.place) else { return false };
        let before = std::mem::replace(&mut self.isolation, next);
        self.touched[technique as usize] = true;
        next.write(technique, view, &self.place, plan);
        // Frequencies belong to CPUs: they follow when the CPUs move.
        if technique.is_cores() && self.touched[Technique::Frequency as usize] {
            next.write(Technique::Frequency, view, &self.place, plan);
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
        (Technique::Throttle, _) => "memory bandwidth is its dominant contention: memory throttle of the background",
        (Technique::ForegroundCores, _) => "the CPU is its dominant contention: cores",
        (_, Resource::Llc) => "the LLC is its dominant contention: fewer cores of the background",
        _ => "memory bandwidth is its dominant contention: fewer cores of the background",
    }
}
