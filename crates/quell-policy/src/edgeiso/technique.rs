//! The isolation techniques, and which is used against what (snu2020 §4.3.2; their order is the authors' code's).

use quell_model::{KnobKind, View};
use serde::{Deserialize, Serialize};

use crate::kit::contention::Resource;

/// An isolation technique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Technique {
    /// Cache ways of the victim's own, on devices that have them (§4.3.2, "Intel Fog Reference Design").
    CacheWays,
    /// Cycle throttling: a quota of the most contentious task.
    Quota,
    /// GPU frequency throttling.
    GpuFrequency,
    /// Core allocation: the most contentious task has fewer cores; freed ones stay idle.
    Cores,
    /// Core allocation: the victim has more cores.
    VictimCores,
}

impl Technique {
    /// Every technique.
    pub const ALL: [Technique; 5] =
        [Technique::CacheWays, Technique::Quota, Technique::GpuFrequency, Technique::Cores, Technique::VictimCores];

    /// The knob that it turns.
    #[must_use]
    pub fn knob(self) -> KnobKind {
        match self {
            Technique::CacheWays => KnobKind::CacheWays,
            Technique::Quota => KnobKind::Quota,
            Technique::GpuFrequency => KnobKind::GpuFrequencyKhz,
            Technique::Cores | Technique::VictimCores => KnobKind::Cpus,
        }
    }

    /// The techniques against contention for a resource, in the order of their use. A victim that runs on the GPU would
    /// suffer from its lower frequency itself.
    #[must_use]
    pub fn against(resource: Resource, victim_uses_gpu: bool) -> &'static [Technique] {
        match (resource, victim_uses_gpu) {
            (Resource::Llc, _) => &[Technique::CacheWays, Technique::Quota],
            (Resource::MemoryBandwidth, true) => &[Technique::Cores, Technique::Quota],
            (Resource::MemoryBandwidth, false) => &[Technique::GpuFrequency, Technique::Cores],
            (Resource::Cpu, _) => &[Technique::VictimCores],
        }
    }

    /// Has the machine something to turn for it?
    pub(super) fn is_there(self, view: &View) -> bool {
        match self {
            Technique::CacheWays => view.controls.ways().is_some(),
            Technique::GpuFrequency => view.controls.gpu.is_some_and(|gpu| gpu.min_khz < gpu.max_khz),
            Technique::Quota | Technique::Cores | Technique::VictimCores => true,
        }
    }
}
