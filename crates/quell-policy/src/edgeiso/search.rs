//! Deciding the next isolator, and its next step (snu2020 Algorithm 4.1, lines 8 to 23).

use quell_model::trial::KnownBy;
use quell_model::{NoteKind, Plan, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::isolation::{Direction, Step};
use super::task::{FoundBy, Task, aggressor, victim};
use super::technique::Technique;
use super::{EdgeIso, UnderWay};
use crate::kit::contention::Resource;

/// For less contention without a known aggressor no workload is paused to find it, and nothing is done.
const WORTH: f64 = 0.05;

/// A smaller difference is no news where it is noise, either (ours).
const NOTEWORTHY: f64 = WORTH;

/// The current isolator: a search for a configuration of one technique.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Isolator {
    pub technique: Technique,
    /// The contention that it is against.
    pub resource: Resource,
    /// How the victim was found.
    pub found_by: FoundBy,
    pub victim: WorkloadId,
    pub target: Option<WorkloadId>,
    /// How the target is known.
    pub known_by: KnownBy,
    /// The difference at the last step, or when it became idle.
    pub last: f64,
    /// `set_idle`: it goes on when the difference moves.
    pub is_idle: bool,
    /// Looks in a row at which another resource, or another victim's, was the most contended.
    pub mismatches: u32,
}

/// `monitor_contention`: what the isolator does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    Make(Direction),
    Stop,
}

fn monitor_contention(diff: f64, last: Option<f64>, stop: f64) -> NextStep {
    let stands = last.is_some_and(|last| (diff - last).abs() <= stop);
    match diff {
        diff if diff.abs() <= stop || stands => NextStep::Stop,
        diff if diff < 0.0 => NextStep::Make(Direction::Strengthen),
        _ => NextStep::Make(Direction::Weaken),
    }
}

impl EdgeIso {
    /// Chooses a victim, its dominant contention, the most contentious task and the next isolator, and makes one step.
    pub(super) fn schedule(&mut self, view: &View, plan: &mut Plan) {
        if self.config.verify && !self.verify(view, plan) {
            return;
        }
        // line 8: get_SLO_violated_LC_task
        let Some((victim, found_by)) = victim(view, &self.tasks) else { return };
        let Some(task) = self.tasks.iter().find(|task| task.id == victim).copied() else { return };
        // line 9: dominant_resource_cont
        let Some((resource, diff)) = task.diffs.dominant(self.config.threads_per_core) else { return };
        // A trial needs to know how it was before.
        if self.config.verify && self.trials.running().is_none() && task.gauge.judge(resource).is_none() {
            return;
        }
        // line 11: choose_iso_target_task
        let target = aggressor(&self.tasks, victim);
        // line 13: decide_next_isolator
        if let Some(mut isolator) = self.isolator {
            let matches = isolator.resource == resource && isolator.victim == victim;
            isolator.mismatches = if matches { 0 } else { isolator.mismatches + 1 };
            self.isolator = Some(isolator);
            if isolator.mismatches < self.config.mismatches {
                return self.next_step(isolator, view, plan);
            }
            self.isolator = None;
        }
        if self.trials.is_searching() {
            return self.trials.search_ended(view.now);
        }
        let stop = task.stop(resource, &self.config);
        if diff >= -stop {
            self.say_noise(victim, plan);
        }
        let is_guess = self.config.verify && matches!(target, Some((_, KnownBy::CpuTime))) && resource != Resource::Cpu;
        let target = match is_guess && diff < -stop {
            true if diff > -WORTH => None,
            true => match self.by_pauses(victim, target, view.now) {
                Some(found) => found,
                None => return,
            },
            false => target,
        };
        self.begin_search(&task, found_by, (resource, diff), target, view, plan);
    }

    /// Says once a solo run that what the text's threshold would take for contention is noise.
    fn say_noise(&mut self, victim: WorkloadId, plan: &mut Plan) {
        let Some(task) = self.tasks.iter_mut().find(|task| task.id == victim) else { return };
        let diffs = [(Resource::Llc, task.diffs.llc), (Resource::MemoryBandwidth, task.diffs.mem_bw)];
        if let Some(excuse) = task.solo.and_then(|solo| solo.excuse(&task.co_run, &diffs, NOTEWORTHY))
            && task.said_noise.first()
        {
            plan.note(NoteKind::Because, Some(victim), excuse.to_string());
        }
    }

    /// lines 16 to 23: the current isolator's next step.
    fn next_step(&mut self, mut isolator: Isolator, view: &View, plan: &mut Plan) {
        let task = self.tasks.iter().find(|task| task.id == isolator.victim).copied();
        let diff = task.and_then(|task| task.diffs.of(isolator.resource, self.config.threads_per_core));
        let Some(diff) = diff else { return };
        let stop = task.map_or(self.config.stop, |task| task.stop(isolator.resource, &self.config));
        match monitor_contention(diff, Some(isolator.last), stop) {
            NextStep::Stop if self.trials.is_searching() => self.trials.search_ended(view.now),
            NextStep::Stop => {
                let has_ended = !std::mem::replace(&mut isolator.is_idle, true);
                if has_ended {
                    isolator.last = diff;
                }
                self.isolator = Some(isolator);
                // What remains is met by the next technique, each once.
                if let Some(task) = task.filter(|_| has_ended && diff < -stop) {
                    self.strengthen(&task, &isolator, view, plan);
                }
            }
            // How much of it is needed is measured, not searched by the difference.
            NextStep::Make(direction) if self.trials.turns(direction == Direction::Weaken) => {
                self.trials.search_ended(view.now);
            }
            NextStep::Make(direction) => {
                (isolator.last, isolator.is_idle) = (diff, false);
                self.isolator = Some(isolator);
                // "The search process can stop if it reaches the boundaries for the configuration."
                if !self.enforce(&isolator, direction, view, plan) {
                    if self.trials.is_searching() {
                        return self.trials.search_ended(view.now);
                    }
                    self.isolator = Some(Isolator { is_idle: true, ..isolator });
                    if let Some(task) = task.filter(|_| direction == Direction::Strengthen) {
                        self.strengthen(&task, &isolator, view, plan);
                    }
                }
            }
        }
    }

    fn begin_search(
        &mut self,
        task: &Task,
        found_by: FoundBy,
        (resource, diff): (Resource, f64),
        target: Option<(WorkloadId, KnownBy)>,
        view: &View,
        plan: &mut Plan,
    ) {
        let NextStep::Make(direction) = monitor_contention(diff, None, task.stop(resource, &self.config)) else {
            return;
        };
        let techniques = Technique::against(resource, task.own.gpu);
        let first = techniques[0];
        let mut new = Isolator {
            technique: first,
            resource,
            found_by,
            victim: task.id,
            target: target.map(|(id, _)| id),
            known_by: target.map_or(KnownBy::CpuTime, |(_, known_by)| known_by),
            last: diff,
            is_idle: false,
            mismatches: 0,
        };
        self.ladder.forget_tries();
        if direction == Direction::Strengthen {
            // A task without an aggressor that is known waits for one.
            if target.is_some() {
                self.isolator = Some(Isolator { is_idle: true, ..new });
                self.strengthen(task, &new, view, plan);
            }
            return;
        }
        // What was taken last is given back first.
        for &technique in techniques.iter().rev().chain(Technique::ALL.iter().rev()) {
            new.technique = technique;
            if self.isolation.uses(technique) && self.enforce(&new, direction, view, plan) {
                self.isolator = Some(new);
                self.said_exhausted.forget();
                return;
            }
        }
    }

    /// The first step of the next technique against a contention that has not been tried.
    fn strengthen(&mut self, task: &Task, like: &Isolator, view: &View, plan: &mut Plan) {
        let techniques = Technique::against(like.resource, task.own.gpu);
        while let Some(technique) = self.ladder.untried(techniques) {
            let isolator = Isolator { technique, is_idle: false, ..*like };
            if technique.is_there(view) && self.enforce(&isolator, Direction::Strengthen, view, plan) {
                self.isolator = Some(isolator);
                plan.note(NoteKind::Because, Some(task.id), reason(technique, like.resource, like.found_by));
                return;
            }
        }
        if self.said_exhausted.first() {
            let text = format!("contention for {} remains, and every isolation is used up", like.resource.name());
            plan.note(NoteKind::Warning, Some(task.id), text);
        }
    }

    /// One configuration step; false where there is none.
    fn enforce(&mut self, isolator: &Isolator, direction: Direction, view: &View, plan: &mut Plan) -> bool {
        let Isolator { technique, victim, target, .. } = *isolator;
        let step = Step { technique, direction, victim, target };
        self.before.clone_from(&self.isolation);
        if !self.ladder.has(technique) || !self.may_try(isolator, direction) || !self.isolation.step(&step, view) {
            return false;
        }
        if self.config.verify {
            self.begin_or_go_on(isolator, direction, view, plan);
        }
        self.write_step(technique, view, plan);
        self.knobs.under_way = Some(UnderWay { plan: plan.number, technique: Some(technique) });
        true
    }

    /// Writes the knobs of a technique after a step of it.
    pub(super) fn write_step(&mut self, technique: Technique, view: &View, plan: &mut Plan) {
        self.knobs.touched[technique as usize] = true;
        self.isolation.write(technique, view, plan);
        // A quota is a part of the task's CPUs: it follows when they move.
        let moves_cores = matches!(technique, Technique::Cores | Technique::VictimCores);
        if moves_cores && self.knobs.touched[Technique::Quota as usize] {
            self.isolation.write(Technique::Quota, view, plan);
            self.disturbed(Technique::Quota.knob(), view.now);
        }
        self.disturbed(technique.knob(), view.now);
    }
}

fn reason(technique: Technique, resource: Resource, found_by: FoundBy) -> &'static str {
    let by_latency = found_by == FoundBy::Latency;
    match (technique, resource, by_latency) {
        (Technique::CacheWays, _, true) => "the furthest above its SLO, for the LLC: cache ways of its own",
        (Technique::CacheWays, _, false) => "the most slowed down, for the LLC: cache ways of its own",
        (Technique::Quota, Resource::Llc, true) => "the furthest above its SLO, for the LLC: quota of the aggressor",
        (Technique::Quota, Resource::Llc, false) => "the most slowed down, for the LLC: quota of the aggressor",
        (Technique::Quota, _, true) => "the furthest above its SLO, for memory bandwidth: quota of the aggressor",
        (Technique::Quota, _, false) => "the most slowed down, for memory bandwidth: quota of the aggressor",
        (Technique::GpuFrequency, _, true) => "the furthest above its SLO, for memory bandwidth: frequency of the GPU",
        (Technique::GpuFrequency, _, false) => "the most slowed down, for memory bandwidth: frequency of the GPU",
        (Technique::Cores, _, true) => "the furthest above its SLO, for memory bandwidth: fewer cores of the aggressor",
        (Technique::Cores, _, false) => "the most slowed down, for memory bandwidth: fewer cores of the aggressor",
        (Technique::VictimCores, _, true) => "the furthest above its SLO, for the CPU: more cores",
        (Technique::VictimCores, _, false) => "the most slowed down, for the CPU: more cores",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_ends_at_half_a_percent_or_when_a_step_moved_no_more() {
        let next = |diff, last| monitor_contention(diff, last, 0.005);
        assert_eq!(next(-0.2, None), NextStep::Make(Direction::Strengthen));
        assert_eq!(next(-0.2, Some(-0.4)), NextStep::Make(Direction::Strengthen));
        assert_eq!(next(-0.2, Some(-0.204)), NextStep::Stop);
        assert_eq!(next(-0.004, Some(-0.2)), NextStep::Stop);
        assert_eq!(next(0.1, Some(-0.1)), NextStep::Make(Direction::Weaken));
    }
}
