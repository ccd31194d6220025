//! Deciding the next isolator, and its next step (snu2020 Algorithm 4.1, lines 8 to 23).

use quell_model::{NoteKind, Plan, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::isolation::{Direction, Step};
use super::task::{FoundBy, Task, aggressor, victim};
use super::technique::Technique;
use super::{EdgeIso, UnderWay};
use crate::kit::contention::Resource;

/// The current isolator: a search for a configuration of one technique.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Isolator {
    pub technique: Technique,
    /// The contention that it is against.
    pub resource: Resource,
    pub victim: WorkloadId,
    pub target: Option<WorkloadId>,
    /// The difference before the last step.
    pub last: f64,
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
        // line 8: get_SLO_violated_LC_task
        let Some((victim, found_by)) = victim(view, &self.tasks) else { return };
        let Some(task) = self.tasks.iter().find(|task| task.id == victim).copied() else { return };
        // line 9: dominant_resource_cont
        let Some((resource, diff)) = task.diffs.dominant(self.config.threads_per_core) else { return };
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
        self.begin_search(&task, found_by, (resource, diff), target, view, plan);
    }

    /// lines 16 to 23: the current isolator's next step.
    fn next_step(&mut self, mut isolator: Isolator, view: &View, plan: &mut Plan) {
        let task = self.tasks.iter().find(|task| task.id == isolator.victim);
        let diff = task.and_then(|task| task.diffs.of(isolator.resource, self.config.threads_per_core));
        let Some(diff) = diff else { return };
        match monitor_contention(diff, Some(isolator.last), self.config.stop) {
            NextStep::Stop => self.isolator = None,
            NextStep::Make(direction) => {
                isolator.last = diff;
                self.isolator = Some(isolator);
                if !self.enforce(&isolator, direction, view, plan) {
                    // "The search process can stop if it reaches the boundaries for the configuration."
                    self.isolator = None;
                }
            }
        }
    }

    fn begin_search(
        &mut self,
        task: &Task,
        found_by: FoundBy,
        (resource, diff): (Resource, f64),
        target: Option<WorkloadId>,
        view: &View,
        plan: &mut Plan,
    ) {
        let NextStep::Make(direction) = monitor_contention(diff, None, self.config.stop) else { return };
        let techniques = Technique::against(resource, task.own.gpu);
        let new = |technique| Isolator { technique, resource, victim: task.id, target, last: diff, mismatches: 0 };
        if direction == Direction::Weaken {
            // What was taken last is given back first.
            for &technique in techniques.iter().rev().chain(Technique::ALL.iter().rev()) {
                let isolator = new(technique);
                if self.isolation.uses(technique) && self.enforce(&isolator, direction, view, plan) {
                    self.isolator = Some(isolator);
                    self.said_exhausted.forget();
                    return;
                }
            }
            return;
        }
        for _ in techniques {
            let Some(technique) = self.ladder.choose(techniques) else { break };
            let isolator = new(technique);
            if technique.is_there(view) && self.enforce(&isolator, direction, view, plan) {
                self.isolator = Some(isolator);
                plan.note(NoteKind::Because, Some(task.id), reason(technique, resource, found_by));
                return;
            }
        }
        // A task without an aggressor that is known waits for one.
        if target.is_some() && self.said_exhausted.first() {
            let text = format!("contention for {} remains, and every isolation is used up", resource.name());
            plan.note(NoteKind::Warning, Some(task.id), text);
        }
    }

    /// One configuration step; false where there is none.
    fn enforce(&mut self, isolator: &Isolator, direction: Direction, view: &View, plan: &mut Plan) -> bool {
        let Isolator { technique, victim, target, .. } = *isolator;
        let step = Step { technique, direction, victim, target, quota_step: self.config.quota_step };
        self.before.copy_from(&self.isolation);
        if !self.ladder.has(technique) || !self.isolation.step(&step, view) {
            return false;
        }
        self.touched[technique as usize] = true;
        self.isolation.write(technique, view, self.config.quota_step, plan);
        // A quota is a part of the task's CPUs: it follows when they move.
        let moves_cores = matches!(technique, Technique::Cores | Technique::VictimCores);
        if moves_cores && self.touched[Technique::Quota as usize] {
            self.isolation.write(Technique::Quota, view, self.config.quota_step, plan);
            self.disturbed(Technique::Quota.knob(), view.now);
        }
        self.under_way = Some(UnderWay { plan: plan.number, technique: Some(technique) });
        self.disturbed(technique.knob(), view.now);
        true
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
