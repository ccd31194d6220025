//! Enforcing isolation, one configuration step at a time (snu2020 §3.4.2, "Enforcing isolation").

use quell_model::{CpuSet, Knob, KnobSetting, Plan, Target, ThrottleControl, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::decide::Technique;
use super::place::Place;

/// More isolation, or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// More resources to the foreground.
    Strengthen,
    /// Some go back to the background.
    Weaken,
}

/// Isolation of foreground and background.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Isolation {
    /// CPUs of the foreground.
    pub cores: u32,
    /// CPUs of the background; others idle.
    pub background: u32,
    /// Ways of the foreground alone; None: all share all.
    pub ways: Option<u32>,
    /// Highest frequency of the background's CPUs, kHz; None: their highest.
    pub khz: Option<u32>,
    /// Memory throttle of the background; None: none.
    pub throttle: Option<u32>,
}

/// The machine's ranges, for one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranges {
    /// Ways, and the least number that a workload can have.
    ways: Option<(u32, u32)>,
    /// Lowest and highest frequency, and the step.
    khz: Option<(u32, u32, u32)>,
    throttle: Option<ThrottleControl>,
}

impl Ranges {
    pub fn of(view: &View, cpus: &CpuSet) -> Ranges {
        let khz = view.controls.frequencies_of(cpus);
        // A machine without a list of frequencies: a tenth of the range.
        let khz = khz.map(|(low, high, step)| (low, high, if step > 0 { step } else { (high - low.min(high)) / 10 }));
        let khz = khz.filter(|(low, high, step)| low < high && *step > 0);
        Ranges { ways: view.controls.ways(), khz, throttle: view.controls.throttle }
    }
}

impl Isolation {
    /// No isolation but each its own CPUs: "both workloads … have their own dedicated CPU cores" (§3.5). One CPU
    /// at least stays with each.
    pub(super) fn initial(view: &View, place: &Place) -> Isolation {
        let all = place.cpus(view).len() as u32;
        let asked = view.workload(place.foreground).map_or(0, |spec| spec.cpus.ceil());
        let cores = asked.clamp(1, all.saturating_sub(1).max(1));
        let background = all.saturating_sub(cores).max(1);
        Isolation { cores, background, ways: None, khz: None, throttle: None }
    }

    /// Keeps it within the available CPUs.
    pub(super) fn fit(&mut self, view: &View, place: &Place) {
        let all = place.cpus(view).len() as u32;
        self.cores = self.cores.clamp(1, all.saturating_sub(1).max(1));
        self.background = self.background.clamp(1, all.saturating_sub(self.cores).max(1));
    }

    /// Is this technique in force?
    pub(super) fn uses(&self, technique: Technique, initial: &Isolation) -> bool {
        match technique {
            Technique::CacheWays => self.ways.is_some(),
            Technique::Frequency => self.khz.is_some(),
            Technique::Throttle => self.throttle.is_some(),
            Technique::ForegroundCores => self.cores > initial.cores,
            Technique::BackgroundCores => self.cores + self.background < initial.cores + initial.background,
        }
    }

    /// The next configuration in this direction; None where there is none.
    ///
    /// The first step of partitioning divides the ways evenly; every further one moves one way. Frequency and throttle
    /// move by the machine's step, cores one by one.
    pub(super) fn next(
        &self,
        technique: Technique,
        direction: Direction,
        view: &View,
        place: &Place,
    ) -> Option<Isolation> {
        let cpus = place.cpus(view);
        let ranges = Ranges::of(view, &cpus);
        let all = cpus.len() as u32;
        let mut next = *self;
        let strengthen = direction == Direction::Strengthen;
        match technique {
            Technique::CacheWays => {
                let (ways, least) = ranges.ways?;
                let half = ways / 2;
                next.ways = match (self.ways, strengthen) {
                    (None, true) => Some(half),
                    (Some(own), true) if own < ways - least => Some(own + 1),
                    (Some(own), false) if own > half => Some(own - 1),
                    (Some(_), false) => None,
                    (own, _) => own,
                };
            }
            Technique::Frequency => {
                let (low, high, step) = ranges.khz?;
                let now = self.khz.unwrap_or(high);
                let then = if strengthen { now.saturating_sub(step) } else { now + step };
                next.khz = (then < high).then_some(then);
                if then < low {
                    return None;
                }
            }
            Technique::Throttle => {
                let ThrottleControl { least, most, step, .. } = ranges.throttle?;
                let now = self.throttle.unwrap_or(most);
                let then = if strengthen { now.saturating_sub(step.max(1)) } else { now + step.max(1) };
                next.throttle = (then < most).then_some(then);
                if then < least {
                    return None;
                }
            }
            Technique::BackgroundCores if strengthen => next.background = self.background.saturating_sub(1).max(1),
            Technique::BackgroundCores => {
                next.background = (self.background + 1).min(all.saturating_sub(self.cores).max(1))
            }
            // Idle CPUs come first, then the background's.
            Technique::ForegroundCores if strengthen => {
                next.cores = (self.cores + 1).min(all.saturating_sub(1).max(1));
                next.background = self.background.min(all.saturating_sub(next.cores).max(1));
            }
            Technique::ForegroundCores => {
                next.cores = self.cores.saturating_sub(1).max(Isolation::initial(view, place).cores);
                next.background = self.background + self.cores - next.cores;
            }
        }
        (next != *self).then_some(next)
    }

    /// The foreground's CPUs and the background's: whole cores as far as possible, the foreground's from the lowest, the
    /// background's from the highest. On one CPU both have it.
    pub(super) fn split(&self, view: &View, place: &Place) -> (CpuSet, CpuSet) {
        let pool = place.cpus(view);
        if pool.len() < 2 {
            return (pool, pool);
        }
        let (mut foreground, mut background) = (CpuSet::EMPTY, CpuSet::EMPTY);
        for core in view.topology.cores() {
            let room = self.cores as usize - foreground.len().min(self.cores as usize);
            core.intersection(&pool).iter().take(room).for_each(|cpu| foreground.insert(cpu));
        }
        let rest = pool.difference(&foreground);
        for core in view.topology.cores().iter().rev() {
            let room = (self.background as usize).saturating_sub(background.len());
            core.intersection(&rest).iter().take(room).for_each(|cpu| background.insert(cpu));
        }
        (foreground, background)
    }

    /// Writes the knobs of one technique.
    pub(super) fn write(&self, technique: Technique, view: &View, place: &Place, plan: &mut Plan) {
        let (its, others) = self.split(view, place);
        let mut set = |target, knob| plan.knobs.push(KnobSetting { target, knob });
        match technique {
            // A pool without CPUs cannot be divided.
            Technique::BackgroundCores | Technique::ForegroundCores if its.is_empty() || others.is_empty() => {}
            Technique::BackgroundCores | Technique::ForegroundCores => {
                for id in place.everyone(view) {
                    let cpus = if id == place.foreground { its } else { others };
                    set(Target::Workload(id), Knob::Cpus(view.within_or_any(id, &cpus)));
                }
            }
            Technique::CacheWays => {
                let Some((ways, _)) = view.controls.ways() else { return };
                let all = u32::MAX >> (32 - ways.clamp(1, 32));
                let background = self.ways.map_or(all, |own| all >> own);
                let apart = self.ways.map_or(all, |_| all & !background);
                for id in place.everyone(view) {
                    set(Target::Workload(id), Knob::CacheWays(if id == place.foreground { apart } else { background }));
                }
            }
            Technique::Frequency => {
                for cpu in place.cpus(view).iter() {
                    let Some(control) = view.controls.frequency_of(cpu) else { continue };
                    let limit = self.khz.filter(|_| others.contains(cpu)).unwrap_or(u32::MAX);
                    let khz = limit.clamp(control.min_khz, control.max_khz.max(control.min_khz));
                    set(Target::Cpu(cpu), Knob::MaxFrequencyKhz(khz));
                }
            }
            Technique::Throttle => {
                let Some(control) = view.controls.throttle else { return };
                for id in place.everyone(view).filter(|id| *id != place.foreground) {
                    set(Target::Workload(id), Knob::Throttle(self.throttle.unwrap_or(control.most)));
                }
            }
        }
    }
}

/// Lifts one technique's isolation from all workloads: all CPUs, all ways, the highest frequency.
pub(super) fn lift(technique: Technique, view: &View, plan: &mut Plan) {
    let mut set = |target, knob| plan.knobs.push(KnobSetting { target, knob });
    let mut each = |knob: Option<Knob>| {
        let knob = knob.into_iter();
        knob.for_each(|knob| view.owned().for_each(|(id, _): (WorkloadId, _)| set(Target::Workload(id), knob)));
    };
    match technique {
        Technique::ForegroundCores => {}
        Technique::BackgroundCores => each(Some(view.pool()).filter(|pool| !pool.is_empty()).map(Knob::Cpus)),
        Technique::CacheWays => {
            each(view.controls.ways().map(|(ways, _)| Knob::CacheWays(u32::MAX >> (32 - ways.clamp(1, 32)))));
        }
        Technique::Throttle => each(view.controls.throttle.map(|control| Knob::Throttle(control.most))),
        Technique::Frequency => {
            for cpu in view.pool().iter() {
                if let Some(control) = view.controls.frequency_of(cpu) {
                    set(Target::Cpu(cpu), Knob::MaxFrequencyKhz(control.max_khz));
                }
            }
        }
    }
}
