//! Try, verify, undo: a search for a configuration of one technique is a trial. Its end is judged by windows of the victim's
//! measure before the first step and after the last; what did not help is undone, what helped is kept at its weakest
//! step, and what is kept has to show again later that it is of use.
//!
//! A policy has one of these for each pool of CPUs, so that no two trials judge each other. It makes the steps; this
//! module says when a search is over and which of its steps is to be in force.

mod begun;
mod gauge;
mod memory;
mod verdict;

use quell_model::trial::{Finding, Judge, Then, Windows};
use quell_model::{Nanos, Plan, Trial};
use serde::{Deserialize, Serialize};

pub use begun::{begun, numbered};
pub use gauge::{Gauge, LEAST};
pub use memory::{Attempt, Memory};
use verdict::{compare, margin, with_load};

/// This many windows at most are waited for while nothing shows.
const ENOUGH: u8 = 6;
/// Windows that do not come in this time are missing: six reports of a second, and two to spare.
const PATIENCE: Nanos = Nanos::from_secs(8);
/// This many windows in a row that are worse than all before end a search at once.
const ALARMS: u8 = 2;
/// Worse than all before: by this part of the median.
const WORSE: f32 = 0.1;
/// Steps of one search that are remembered.
const STEPS: usize = 32;

/// A policy's settings, of which a trial remembers one a step.
pub trait Setting: Clone + PartialEq {
    /// The value of the trial's knob; None: not limited.
    fn level(&self, trial: &Trial) -> Option<u32>;
}

/// Where a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Stage {
    /// The policy searches.
    Searching,
    /// The last step waits for its windows.
    Measuring,
    /// Without any step, once more: windows before.
    Resting,
    /// The weakest step that is as good lies between these.
    Trimming { low: usize, high: usize },
}

/// A trial under way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Running {
    trial: Trial,
    attempt: Attempt,
    stage: Stage,
    /// Does it give back rather than take?
    releases: bool,
    /// The windows of the last step, where weaker ones are compared with it.
    full: Windows,
    /// Load and best-effort work before.
    load: Windows,
    work: Windows,
    until: Nanos,
    alarms: u8,
    /// The last window that was looked at.
    alarm: f32,
    alarmed_at: u8,
    was_unclear: bool,
}

/// The trials of one pool of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trials<S> {
    running: Option<Running>,
    /// The setting before the first step, and after each; the first `used` of them.
    steps: Vec<S>,
    used: usize,
    /// The step in force.
    at: usize,
    number: u32,
    /// What earlier ones showed.
    pub memory: Memory,
}

impl<S> Default for Trials<S> {
    fn default() -> Trials<S> {
        Trials { running: None, steps: Vec::new(), used: 0, at: 0, number: 0, memory: Memory::default() }
    }
}

impl<S: Setting> Trials<S> {
    /// Makes room for settings like this one, so that no step allocates later.
    pub fn prepare(&mut self, like: &S) {
        let missing = STEPS.saturating_sub(self.steps.len());
        self.steps.iter_mut().skip(self.used).for_each(|step| step.clone_from(like));
        self.steps.extend(std::iter::repeat_n(like, missing).cloned());
        self.memory.prepare();
    }

    /// The trial under way.
    #[must_use]
    pub fn running(&self) -> Option<&Trial> {
        self.running.as_ref().map(|running| &running.trial)
    }

    /// What it is about.
    #[must_use]
    pub fn attempt(&self) -> Option<Attempt> {
        self.running.as_ref().map(|running| running.attempt)
    }

    /// Does the policy make the next step?
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.stage == Stage::Searching)
    }

    /// Would a step of this kind turn the search round?
    #[must_use]
    pub fn turns(&self, releases: bool) -> bool {
        self.running.as_ref().is_some_and(|running| running.stage == Stage::Searching && running.releases != releases)
    }

    /// A trial begins with its first step, which shows from `shows_at` on. Of `trial` the number, the values and the windows
    /// are set here.
    pub fn begin(
        &mut self,
        attempt: Attempt,
        trial: Trial,
        releases: bool,
        gauge: &Gauge,
        settings: (&S, &S),
        shows_at: Nanos,
    ) {
        self.number += 1;
        (self.used, self.at) = (0, 0);
        let judge = gauge.judge(trial.resource).unwrap_or_default();
        let mut trial = Trial {
            number: self.number,
            judge,
            before: gauge.windows(judge),
            after: Windows::default(),
            cost: None,
            finding: Finding::Begun,
            then: Then::Going,
            ..trial
        };
        trial.from = settings.0.level(&trial);
        trial.to = settings.1.level(&trial);
        self.push(settings.0);
        self.push(settings.1);
        self.running = Some(Running {
            trial,
            attempt,
            stage: Stage::Searching,
            releases,
            full: Windows::default(),
            load: gauge.load(),
            work: gauge.work(),
            until: shows_at + PATIENCE,
            alarms: 0,
            alarm: 0.0,
            alarmed_at: 0,
            was_unclear: false,
        });
    }

    fn push(&mut self, setting: &S) {
        if self.used == STEPS {
            self.used -= 1;
        }
        match self.steps.get_mut(self.used) {
            Some(step) => step.clone_from(setting),
            None => self.steps.push(setting.clone()),
        }
        self.at = self.used;
        self.used += 1;
    }

    /// The search made a further step, or took one back. It shows from this time on.
    pub fn stepped(&mut self, setting: &S, shows_at: Nanos) {
        if self.used >= 2 && self.steps[self.used - 2] == *setting {
            self.used -= 1;
            self.at = self.used - 1;
        } else {
            self.push(setting);
        }
        if let Some(running) = &mut self.running {
            (running.alarmed_at, running.until) = (0, shows_at + PATIENCE);
            running.trial.to = setting.level(&running.trial);
        }
    }

    /// Says that it began.
    pub fn announce(&self, plan: &mut Plan) {
        plan.trials.extend(self.running());
    }

    /// The search is over: its last step is judged when its windows are there.
    pub fn search_ended(&mut self, shows_at: Nanos) {
        if let Some(running) = self.running.as_mut().filter(|running| running.stage == Stage::Searching) {
            (running.stage, running.until) = (Stage::Measuring, shows_at + PATIENCE);
        }
    }

    /// The setting that [`Trials::look`] asks for. It shows from this time on.
    pub fn set(&mut self, shows_at: Nanos) -> &S {
        if let Some(running) = &mut self.running {
            running.until = shows_at + PATIENCE;
        }
        &self.steps[self.at]
    }

    /// Looks at the victim's measures. True: another step is to be in force, that of [`Trials::set`].
    pub fn look(&mut self, gauge: &Gauge, now: Nanos, plan: &mut Plan) -> bool {
        let Some(mut running) = self.running else { return false };
        let (judge, before) = (running.trial.judge, running.trial.before);
        let after = gauge.windows(judge);
        let is_late = now >= running.until;
        let had = self.at;
        match running.stage {
            Stage::Searching => {
                if running.is_alarmed(gauge) {
                    running.trial.after = after;
                    self.end(running, gauge, Finding::Harmed, 0, now, plan);
                    return had != self.at;
                }
                // The policy sees nothing any more.
                if is_late {
                    (running.stage, running.until) = (Stage::Measuring, now + PATIENCE);
                }
                self.running = Some(running);
            }
            Stage::Measuring => {
                // Once more alike: nothing was tried.
                if self.used < 2 {
                    self.end(running, gauge, Finding::NoEffect, 0, now, plan);
                    return had != self.at;
                }
                // What was given back and is missing at once is taken again at once.
                let is_missing = running.releases && running.is_alarmed(gauge);
                let finding = if is_missing { Some(Finding::Harmed) } else { running.finding(gauge, is_late) };
                let Some(finding) = finding else {
                    self.running = Some(running);
                    return false;
                };
                running.trial.after = after;
                self.judged(running, gauge, finding, now, plan);
            }
            Stage::Resting => {
                if after.count >= ENOUGH.min(before.count.max(LEAST)) || (is_late && after.count >= LEAST) {
                    running.trial.before = after;
                    (running.load, running.work) = (gauge.load(), gauge.work());
                    running.stage = Stage::Measuring;
                    self.at = self.used - 1;
                    self.running = Some(running);
                } else if is_late {
                    self.end(running, gauge, Finding::Unclear, 0, now, plan);
                }
            }
            Stage::Trimming { low, high } => self.trim(running, gauge, (low, high), is_late, now, plan),
        }
        had != self.at
    }

    /// The last step's windows are there.
    fn judged(&mut self, mut running: Running, gauge: &Gauge, finding: Finding, now: Nanos, plan: &mut Plan) {
        let last = self.used - 1;
        match (finding, running.releases) {
            (Finding::Unclear, false) if !running.was_unclear => {
                running.was_unclear = true;
                (running.trial.finding, running.trial.then) = (Finding::Unclear, Then::Again);
                running.stage = Stage::Resting;
                plan.trials.push(running.trial);
                self.at = 0;
                self.running = Some(running);
            }
            (Finding::Helped, false) if last > 1 => {
                running.full = running.trial.after;
                self.probe(running, 1, last);
            }
            (Finding::Helped, false) | (Finding::Helped | Finding::NoEffect, true) => {
                self.end(running, gauge, finding, last, now, plan);
            }
            // Less was too little: how much less is not?
            (Finding::Harmed, true) if last > 1 => {
                running.full = running.trial.before;
                self.probe(running, 0, last);
            }
            (finding, _) => self.end(running, gauge, finding, 0, now, plan),
        }
    }

    /// A step between.
    fn probe(&mut self, mut running: Running, low: usize, high: usize) {
        running.stage = Stage::Trimming { low, high };
        self.at = usize::midpoint(low, high);
        self.running = Some(running);
    }

    /// Halves the steps of which the weakest good one is one. When taking, `high` is good; when giving back, `low` is.
    fn trim(
        &mut self,
        mut running: Running,
        gauge: &Gauge,
        (mut low, mut high): (usize, usize),
        is_late: bool,
        now: Nanos,
        plan: &mut Plan,
    ) {
        let judge = running.trial.judge;
        let after = gauge.windows(judge);
        if after.count < LEAST && !is_late {
            return;
        }
        let load = |finding| with_load(finding, &running.load, &gauge.load());
        let is_good = after.count >= LEAST
            && matches!(load(compare(judge, &running.full, &after)), Finding::NoEffect | Finding::Helped);
        let finding = if running.releases { Finding::Harmed } else { Finding::Helped };
        match (running.releases, is_good) {
            (false, true) => high = self.at,
            (false, false) => low = self.at + 1,
            (true, true) => low = self.at,
            (true, false) => high = self.at,
        }
        if is_good {
            running.trial.after = after;
        }
        if (running.releases && high - low > 1) || (!running.releases && low < high) {
            return self.probe(running, low, high);
        }
        let finding = if running.releases && low > 0 { Finding::NoEffect } else { finding };
        self.end(running, gauge, finding, if running.releases { low } else { high }, now, plan);
    }

    /// It is over, with this step in force.
    fn end(&mut self, running: Running, gauge: &Gauge, finding: Finding, at: usize, now: Nanos, plan: &mut Plan) {
        let Running { mut trial, attempt, releases, .. } = running;
        self.at = at;
        trial.finding = finding;
        trial.then = if at > 0 { Then::Kept } else { Then::Undone };
        trial.to = self.steps[at].level(&trial);
        trial.cost = cost(&running.work, &gauge.work());
        plan.trials.push(trial);
        self.running = None;
        let load = gauge.load().median;
        match (releases, at > 0) {
            (false, true) => self.memory.keep(attempt, load, false, now),
            (true, false) => {
                self.memory.keep(attempt, load, true, now);
                if finding == Finding::Harmed {
                    self.memory.failed(Attempt { technique: attempt.technique | RELEASE, ..attempt });
                }
            }
            (true, true) => self.memory.looked(attempt.technique, load, now),
            (false, false) if self.used > 1 => self.memory.failed(attempt),
            (false, false) => {}
        }
    }

    /// May this be tried?
    #[must_use]
    pub fn may(&self, attempt: &Attempt, releases: bool) -> bool {
        let technique = if releases { attempt.technique | RELEASE } else { attempt.technique };
        self.memory.may(&Attempt { technique, ..*attempt })
    }

    /// It cannot go on. True: the setting before it is to be in force again, that of [`Trials::set`].
    pub fn abandon(&mut self, finding: Finding, plan: &mut Plan) -> bool {
        let Some(Running { trial, .. }) = self.running.take() else { return false };
        let had = std::mem::take(&mut self.at);
        plan.trials.push(Trial { finding, then: Then::Undone, to: trial.from, ..trial });
        had > 0
    }

    /// The host refused its last step. True: the setting before it is to be in force again.
    pub fn refused(&mut self, plan: &mut Plan) -> bool {
        let attempt = self.running.as_ref().map(|running| running.attempt);
        attempt.into_iter().for_each(|attempt| self.memory.failed(attempt));
        // Its last step is not in force.
        self.abandon(Finding::Refused, plan) && self.used > 2
    }
}

/// Mark of a technique that is given back.
const RELEASE: u8 = 0x80;

impl Running {
    /// The finding, once there are windows enough for one.
    fn finding(&self, gauge: &Gauge, is_late: bool) -> Option<Finding> {
        let Trial { judge, before, .. } = self.trial;
        let after = gauge.windows(judge);
        if after.count < LEAST || before.count < LEAST {
            return is_late.then_some(Finding::Unclear);
        }
        let finding = compare(judge, &before, &after);
        let whole = if judge == Judge::Contention { 1.0 } else { before.median.abs() };
        let is_sharp = margin(judge, &before, &after) <= WORSE / 2.0 * whole;
        let waits = finding == Finding::NoEffect && !is_sharp && after.count < ENOUGH && !is_late;
        (!waits).then(|| with_load(finding, &self.load, &gauge.load()))
    }

    /// Were the last windows worse than all before the trial?
    fn is_alarmed(&mut self, gauge: &Gauge) -> bool {
        let Trial { judge, before, .. } = self.trial;
        let Some((last, count)) = gauge.last(judge).filter(|(_, count)| *count != self.alarmed_at) else {
            return false;
        };
        self.alarmed_at = count;
        let whole = if judge == Judge::Contention { 1.0 } else { before.median.abs() };
        // A queue that drains is better with each window.
        let is_worse = last > before.median + before.spread + WORSE * whole && (self.alarms == 0 || last >= self.alarm);
        self.alarm = last;
        self.alarms = if is_worse { self.alarms + 1 } else { 0 };
        self.alarms >= if self.releases { 1 } else { ALARMS }
    }
}

/// The part of best-effort work that is missing.
fn cost(before: &Windows, after: &Windows) -> Option<f32> {
    (before.count > 0 && after.count > 0 && before.median > 0.0).then(|| 1.0 - after.median / before.median)
}

#[cfg(test)]
mod tests;
