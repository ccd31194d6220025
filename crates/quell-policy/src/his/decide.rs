//! The isolation techniques, hardware before software (snu2020 §3.4.2); [`crate::kit::ladder`] says which comes next.

use quell_model::KnobKind;
use serde::{Deserialize, Serialize};

use crate::kit::contention::Resource;

/// An isolation technique. (The fourth of the paper, thread migration between sockets, acts on groups of workloads;
/// here is one group.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Technique {
    /// Hardware cache partitioning: the foreground gets ways of its own.
    CacheWays,
    /// Per-core frequency scaling: the background's cores run slower.
    Frequency,
    /// Core allocation: the foreground gets cores of the background.
    Cores,
}

impl Technique {
    /// Every technique.
    pub const ALL: [Technique; 3] = [Technique::CacheWays, Technique::Frequency, Technique::Cores];

    /// The knob that it turns.
    #[must_use]
    pub fn knob(self) -> KnobKind {
        match self {
            Technique::CacheWays => KnobKind::CacheWays,
            Technique::Frequency => KnobKind::MaxFrequencyKhz,
            Technique::Cores => KnobKind::Cpus,
        }
    }

    /// The techniques against contention for a resource, hardware before software.
    ///
    /// Partitioning is for the LLC; lower frequency "mitigates the memory contention, generated from contentious
    /// background workloads"; core allocation "treats CPU demands as well as mitigates memory contention".
    #[must_use]
    pub fn against(resource: Resource) -> &'static [Technique] {
        match resource {
            Resource::Llc => &[Technique::CacheWays, Technique::Cores],
            Resource::MemoryBandwidth => &[Technique::Frequency, Technique::Cores],
            Resource::Cpu => &[Technique::Cores],
        }
    }
}
