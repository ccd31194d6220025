//! Enforcing isolation, one configuration step at a time (snu2020 §3.4.2, "Enforcing isolation").

use quell_model::{CpuSet, Knob, KnobSetting, Plan, Target, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::HisConfig;
use super::decide::Technique;

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
    /// CPUs of the foreground; the background has the others.
    pub cores: u32,
    /// Ways of the foreground alone; None: all share all.
    pub ways: Option<u32>,
    /// Highest frequency of the background's CPUs, kHz.
    pub khz: u32,
}

impl Isolation {
    /// No isolation but each its own CPUs: "both workloads … have their own dedicated CPU cores" (§3.5). One CPU
    /// at least stays with each.
    pub(super) fn initial(view: &View, foreground: WorkloadId, config: &HisConfig) -> Isolation {
        let asked = view.workload(foreground).map_or(0, |spec| spec.cpus.ceil());
        let most = (view.pool().len() as u32).saturating_sub(1).max(1);
        Isolation { cores: asked.clamp(1, most), ways: None, khz: config.max_khz }
    }

    /// Keeps it within the available CPUs.
    pub(super) fn fit(&mut self, view: &View) {
        let most = (view.pool().len() as u32).saturating_sub(1).max(1);
        self.cores = self.cores.clamp(1, most);
    }

    /// The next configuration in this direction; None where there is none.
    ///
    /// The first step of partitioning divides the ways evenly; every further one moves one way. Frequency moves by
    /// [`HisConfig::khz_step`], cores one by one.
    pub(super) fn next(
        &self,
        technique: Technique,
        direction: Direction,
        foreground: WorkloadId,
        view: &View,
        config: &HisConfig,
    ) -> Option<Isolation> {
        let mut next = *self;
        let strengthen = direction == Direction::Strengthen;
        match technique {
            Technique::CacheWays => {
                let half = config.cache_ways / 2;
                next.ways = match (self.ways, strengthen) {
                    (None, true) => Some(half),
                    (Some(ways), true) => Some(ways + 1),
                    (Some(ways), false) if ways > half => Some(ways - 1),
                    (_, false) => None,
                };
            }
            Technique::Frequency if strengthen => next.khz = self.khz.saturating_sub(config.khz_step),
            Technique::Frequency => next.khz = (self.khz + config.khz_step).min(config.max_khz),
            Technique::Cores if strengthen => next.cores += 1,
            Technique::Cores => {
                let least = Isolation::initial(view, foreground, config).cores;
                next.cores = self.cores.saturating_sub(1).max(least);
            }
        }
        let possible = next.ways.is_none_or(|ways| (1..config.cache_ways).contains(&ways))
            && next.khz >= config.min_khz
            && (next.cores as usize) < view.pool().len();
        (possible && next != *self).then_some(next)
    }

    /// The foreground's CPUs and the background's: whole cores as far as possible, the lowest first. On one CPU both
    /// have it.
    pub(super) fn split(&self, view: &View) -> (CpuSet, CpuSet) {
        let pool = view.pool();
        if pool.len() < 2 {
            return (pool, pool);
        }
        let mut foreground = CpuSet::EMPTY;
        for core in view.topology.cores() {
            let room = self.cores as usize - foreground.len().min(self.cores as usize);
            core.intersection(&pool).iter().take(room).for_each(|cpu| foreground.insert(cpu));
        }
        (foreground, pool.difference(&foreground))
    }

    /// Writes the knobs of one technique.
    pub(super) fn write(
        &self,
        technique: Technique,
        view: &View,
        foreground: WorkloadId,
        config: &HisConfig,
        plan: &mut Plan,
    ) {
        let (its, others) = self.split(view);
        let mut set = |target, knob| plan.knobs.push(KnobSetting { target, knob });
        match technique {
            // A pool without CPUs cannot be divided.
            Technique::Cores if its.is_empty() || others.is_empty() => {}
            Technique::Cores => {
                for id in group(view, foreground) {
                    set(Target::Workload(id), Knob::Cpus(if id == foreground { its } else { others }));
                }
            }
            Technique::CacheWays => {
                let all = all_ways(config);
                let background = self.ways.map_or(all, |ways| all >> ways);
                let apart = self.ways.map_or(all, |_| all & !background);
                for id in group(view, foreground) {
                    set(Target::Workload(id), Knob::CacheWays(if id == foreground { apart } else { background }));
                }
            }
            Technique::Frequency => {
                for cpu in view.pool().iter() {
                    let khz = if others.contains(cpu) { self.khz } else { config.max_khz };
                    set(Target::Cpu(cpu), Knob::MaxFrequencyKhz(khz));
                }
            }
        }
    }
}

/// The foreground and its background: every best-effort workload.
fn group(view: &View, foreground: WorkloadId) -> impl Iterator<Item = WorkloadId> + '_ {
    view.owned().filter(move |(id, spec)| *id == foreground || !spec.is_lc()).map(|(id, _)| id)
}

/// Lifts one technique's isolation from all workloads: all CPUs, all ways, the highest frequency.
pub(super) fn lift(technique: Technique, view: &View, config: &HisConfig, plan: &mut Plan) {
    let mut set = |target, knob| plan.knobs.push(KnobSetting { target, knob });
    match technique {
        Technique::Cores if view.pool().is_empty() => {}
        Technique::Cores => view.owned().for_each(|(id, _)| set(Target::Workload(id), Knob::Cpus(view.pool()))),
        Technique::CacheWays => {
            view.owned().for_each(|(id, _)| set(Target::Workload(id), Knob::CacheWays(all_ways(config))));
        }
        Technique::Frequency => {
            view.pool().iter().for_each(|cpu| set(Target::Cpu(cpu), Knob::MaxFrequencyKhz(config.max_khz)));
        }
    }
}

fn all_ways(config: &HisConfig) -> u32 {
    u32::MAX >> (32 - config.cache_ways.clamp(1, 32))
}
