//! The isolation techniques, hardware before software (snu2020 §3.4.2); [`crate::kit::ladder`] says which comes next.
//! Thread migration, which acts on two groups, is in `migrate`.

use quell_model::KnobKind;
use serde::{Deserialize, Serialize};

use crate::kit::contention::Resource;

/// An isolation technique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Technique {
    /// Hardware cache partitioning: the foreground gets ways of its own.
    CacheWays,
    /// Per-core frequency scaling: the background's cores run slower.
    Frequency,
    /// The memory throttle of the background (optional, not in the text).
    Throttle,
    /// Core allocation: the background has fewer cores; freed ones stay idle.
    BackgroundCores,
    /// Core allocation: the foreground gets more cores.
    ForegroundCores,
}

impl Technique {
    /// Every technique.
    pub const ALL: [Technique; 5] = [
        Technique::CacheWays,
        Technique::Frequency,
        Technique::Throttle,
        Technique::BackgroundCores,
        Technique::ForegroundCores,
    ];

    /// The knob that it turns.
    #[must_use]
    pub fn knob(self) -> KnobKind {
        match self {
            Technique::CacheWays => KnobKind::CacheWays,
            Technique::Frequency => KnobKind::MaxFrequencyKhz,
            Technique::Throttle => KnobKind::Throttle,
            Technique::BackgroundCores | Technique::ForegroundCores => KnobKind::Cpus,
        }
    }

    /// Does it move cores?
    #[must_use]
    pub fn is_cores(self) -> bool {
        self.knob() == KnobKind::Cpus
    }

    /// The techniques against contention for a resource, hardware before software.
    ///
    /// Partitioning is for the LLC; lower frequency "mitigates the memory contention, generated from contentious
    /// background workloads"; core allocation "treats CPU demands as well as mitigates memory contention": fewer cores of
    /// the background, or more of the foreground.
    #[must_use]
    pub fn against(resource: Resource, throttle: bool) -> &'static [Technique] {
        match resource {
            Resource::Llc => &[Technique::CacheWays, Technique::BackgroundCores],
            Resource::MemoryBandwidth if throttle => {
                &[Technique::Frequency, Technique::Throttle, Technique::BackgroundCores]
            }
            Resource::MemoryBandwidth => &[Technique::Frequency, Technique::BackgroundCores],
            Resource::Cpu => &[Technique::ForegroundCores],
        }
    }
}
