//! Choosing an isolation technique: hardware first, then software, what has not been tried first (snu2020 §3.4.2).

use quell_model::KnobKind;
use serde::{Deserialize, Serialize};

use super::profile::Resource;

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

/// Which techniques have been tried, and which this host has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    tried: [bool; 3],
    lacking: [bool; 3],
}

impl Record {
    /// The technique to use next against this contention: the first that has not been tried; once all have been,
    /// "the scheduler reconsiders all techniques". None if the host has none of them.
    pub fn choose(&mut self, resource: Resource) -> Option<Technique> {
        let techniques = Technique::against(resource);
        let available = |technique: &&Technique| !self.lacking[**technique as usize];
        let untried = techniques.iter().filter(available).find(|technique| !self.tried[**technique as usize]);
        let chosen = *match untried {
            Some(technique) => technique,
            None => {
                let first = techniques.iter().find(available)?;
                techniques.iter().for_each(|technique| self.tried[*technique as usize] = false);
                first
            }
        };
        self.tried[chosen as usize] = true;
        Some(chosen)
    }

    /// The host has not got this technique.
    pub fn lacks(&mut self, technique: Technique) {
        self.lacking[technique as usize] = true;
    }

    /// Has the host got this technique, as far as is known?
    pub fn has(&self, technique: Technique) -> bool {
        !self.lacking[technique as usize]
    }

    /// Nothing has been tried in this phase.
    pub fn forget_tries(&mut self) {
        self.tried = [false; 3];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_comes_before_software_and_all_are_reconsidered_in_the_end() {
        let mut record = Record::default();
        let chosen: Vec<_> = (0..4).filter_map(|_| record.choose(Resource::Llc)).collect();
        assert_eq!(chosen, [Technique::CacheWays, Technique::Cores, Technique::CacheWays, Technique::Cores]);
        let mut record = Record::default();
        assert_eq!(record.choose(Resource::MemoryBandwidth), Some(Technique::Frequency));
        assert_eq!(record.choose(Resource::Cpu), Some(Technique::Cores));
        assert_eq!(record.choose(Resource::MemoryBandwidth), Some(Technique::Frequency), "cores are tried already");
    }

    #[test]
    fn what_the_host_lacks_is_not_chosen() {
        let mut record = Record::default();
        record.lacks(Technique::CacheWays);
        assert_eq!(record.choose(Resource::Llc), Some(Technique::Cores));
        record.lacks(Technique::Cores);
        assert_eq!(record.choose(Resource::Llc), None);
        assert!(record.has(Technique::Frequency) && !record.has(Technique::Cores));
    }
}
