//! One task: its use of resources alone and beside others, and its phase.

use quell_model::knob::Settling;
use quell_model::trial::KnownBy;
use quell_model::view::at;
use quell_model::{Nanos, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::config::{EdgeIsoConfig, TaskConfig};
use super::diffs::Diffs;
use crate::kit::contention::Resource;
use crate::kit::once::Once;
use crate::kit::profile::{Alone, Meter, Solo, Usage};
use crate::kit::trial::Gauge;

/// Latencies older than this say nothing about now.
const FRESH: Nanos = Nanos::from_secs(2);

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its workload.
    pub id: WorkloadId,
    /// Is it latency-critical?
    pub is_critical: bool,
    pub(super) own: TaskConfig,
    /// Its solo-run data.
    pub solo: Option<Solo>,
    /// Memory's slowdown in the solo run.
    pub(super) solo_slowdown: Option<f64>,
    /// Was another latency-critical task beside it in the solo run? Then the data is an estimate.
    pub is_beside: bool,
    /// The looks of the solo runs so far.
    looks: Alone,
    /// Time alone so far.
    pub(super) alone_for: Nanos,
    meter: Meter,
    /// Its use at the last look beside others.
    pub(super) co_run: Usage,
    /// Its diffs at the last look beside others.
    pub diffs: Diffs,
    /// Looks for another phase in a row at which the diffs were too large.
    strikes: u32,
    /// Its last solo run said that what looked like another phase was contention.
    is_acquitted: bool,
    /// Its solo-run data before it was profiled again.
    pub(super) earlier: Option<Usage>,
    /// What trials are judged by.
    pub(super) gauge: Gauge,
    #[serde(default)]
    pub(super) said_noise: Once,
}

impl Task {
    pub(super) fn new(view: &View, id: WorkloadId, config: &EdgeIsoConfig) -> Task {
        let spec = view.workload(id);
        Task {
            id,
            is_critical: spec.is_some_and(|spec| spec.is_lc()),
            own: spec.map_or_else(TaskConfig::default, |spec| config.task(&spec.name)),
            solo: None,
            solo_slowdown: None,
            is_beside: false,
            looks: Alone::default(),
            alone_for: Nanos::ZERO,
            meter: Meter::default(),
            co_run: Usage::default(),
            diffs: Diffs::default(),
            strikes: 0,
            is_acquitted: false,
            earlier: None,
            gauge: Gauge::default(),
            said_noise: Once::default(),
        }
    }

    /// Is anything of it measured that a solo run could be compared by?
    pub(super) fn can_measure(&self, view: &View) -> bool {
        let (columns, slot) = (&view.workloads, self.id.index());
        at(&columns.run_time, slot).usable().is_some()
            || at(&columns.llc_hit_ratio, slot).usable().is_some()
            || at(&columns.memory_bandwidth, slot).usable().is_some()
    }

    /// Its use since the last look.
    pub(super) fn read(&mut self, view: &View, settling: &Settling) -> Usage {
        self.meter.read(view, self.id, settling)
    }

    /// Takes in a look at it alone.
    pub(super) fn add_alone(&mut self, usage: &Usage, slowdown: Option<f64>, is_beside: bool) {
        self.looks.add_warm(usage);
        self.is_beside |= is_beside;
        self.solo_slowdown = slowdown.or(self.solo_slowdown);
    }

    /// What is missing of its solo run.
    pub(super) fn left(&self, config: &EdgeIsoConfig) -> Nanos {
        config.solo - self.alone_for.min(config.solo)
    }

    /// Takes in the end of a solo run; false: nothing was measured in all of its time.
    pub(super) fn was_alone(&mut self, span: Nanos, now: Nanos, config: &EdgeIsoConfig) -> bool {
        self.alone_for += span;
        // A host may shorten a slice by a moment.
        if self.alone_for + config.interval < config.solo {
            return true;
        }
        self.alone_for = Nanos::ZERO;
        self.solo = std::mem::take(&mut self.looks).solo(now);
        self.said_noise.forget();
        self.solo.is_some()
    }

    /// Takes in a look at it beside others.
    pub(super) fn look(&mut self, usage: Usage, cores: u32, slowdown: Option<f64>) {
        let before = self.diffs.active;
        self.co_run = usage;
        let solo = self.solo.map(|solo| solo.usage).unwrap_or_default();
        self.diffs = Diffs::between(&solo, &usage, cores, before).or_memory_slowdown(self.solo_slowdown, slowdown);
    }

    /// Is it in another phase: large diffs several times in a row, or another number of threads? Called at each look
    /// for one. Contention for the LLC moves more bytes by itself, and so does a trial.
    pub(super) fn phase_changed(&mut self, config: &EdgeIsoConfig, is_tried: bool) -> bool {
        let Some(solo) = self.solo else { return false };
        let threads = solo.usage.threads.zip(self.co_run.threads).is_some_and(|(solo, now)| solo != now);
        let is_explained = config.verify && (self.is_acquitted || is_tried);
        let exceeds = !is_explained && self.diffs.exceed(config.phase_change);
        self.strikes = if exceeds { self.strikes + 1 } else { 0 };
        threads || self.strikes >= config.phase_strikes
    }

    /// Its solo-run data is of another phase.
    pub(super) fn begin_phase(&mut self) {
        self.earlier = self.solo.map(|solo| solo.usage);
        (self.solo, self.solo_slowdown, self.is_beside) = (None, None, false);
        (self.looks, self.alone_for, self.strikes) = (Alone::default(), Nanos::ZERO, 0);
    }

    /// The least difference that says something: the configuration's, or the noise of what is compared (ours).
    pub(super) fn stop(&self, resource: Resource, config: &EdgeIsoConfig) -> f64 {
        config.stop.max(self.solo.map_or(0.0, |solo| solo.noise(resource, false)))
    }

    /// Does the new solo-run data say that it moves hardly any bytes any more?
    pub(super) fn left_bandwidth(&self) -> bool {
        let few = |usage: Option<Usage>| usage.map(|usage| usage.moves_few_bytes());
        few(self.earlier) == Some(false) && few(self.solo.map(|solo| solo.usage)) == Some(true)
    }

    /// Does the new solo-run data say that its phase is another one indeed? Once.
    pub(super) fn is_another_phase(&mut self) -> bool {
        let Some(solo) = self.solo else { return false };
        let Some(earlier) = self.earlier.take() else { return false };
        self.is_acquitted = solo.usage.is_of_the_same_phase(&earlier);
        !self.is_acquitted
    }

    /// Its latency as a multiple of its SLO, where it is fresh.
    #[must_use]
    pub fn latency(&self, view: &View) -> Option<f64> {
        let slo = view.workload(self.id)?.slo?;
        let sample = at(&view.workloads.latency, self.id.index());
        let latency = sample.usable().filter(|_| sample.at <= view.now && view.now - sample.at <= FRESH)?;
        Some(latency.0 as f64 / slo.bound.0.max(1) as f64)
    }

    /// How far its speed is from what it needs: the lower, the more it is a victim.
    #[must_use]
    pub fn room(&self) -> Option<f64> {
        self.diffs.ips.or(self.diffs.mem_bw).map(|diff| diff + self.own.slack)
    }
}

/// How a victim was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundBy {
    /// Its latency is the furthest above its SLO.
    Latency,
    /// Its instruction rate has fallen the most, less its slack.
    InstructionRate,
}

/// `get_SLO_violated_LC_task`: the task whose latency is the furthest above its SLO; where no latency is fresh or none is above,
/// that whose instruction rate has fallen most. (In the authors' code the latency is never read.)
pub(super) fn victim(view: &View, tasks: &[Task]) -> Option<(WorkloadId, FoundBy)> {
    let profiled = || tasks.iter().filter(|task| task.is_critical && task.solo.is_some());
    let violated = profiled().filter_map(|task| Some((task.latency(view)?, task.id))).filter(|(times, _)| *times > 1.0);
    if let Some((_, id)) = violated.max_by(|one, other| one.0.total_cmp(&other.0)) {
        return Some((id, FoundBy::Latency));
    }
    let rated = profiled().filter_map(|task| Some((task.room()?, task.id)));
    rated.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, id)| (id, FoundBy::InstructionRate))
}

/// `choose_iso_target_task`: the task that moves the most bytes, other services included; where bytes are not measured, that
/// which uses the most CPU time.
pub(super) fn aggressor(tasks: &[Task], victim: WorkloadId) -> Option<(WorkloadId, KnownBy)> {
    let others = || tasks.iter().filter(|task| task.id != victim);
    let most = |of: fn(&Task) -> Option<f64>| {
        let rated = others().filter_map(|task| Some((of(task)?, task.id))).filter(|(rate, _)| *rate > 0.0);
        rated.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, id)| id)
    };
    let by_bandwidth = most(|task| task.co_run.memory_bandwidth).map(|id| (id, KnownBy::Bandwidth));
    by_bandwidth.or_else(|| most(|task| task.co_run.cpus).map(|id| (id, KnownBy::CpuTime)))
}
