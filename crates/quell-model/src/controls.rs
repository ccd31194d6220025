//! What there is to turn on a machine: ranges, steps and sharing of the hardware's knobs. Part of the view, so that a
//! policy takes its ranges from the machine.

use serde::{Deserialize, Serialize};

use crate::{CpuId, CpuSet};

/// Ways of one last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayControl {
    /// The cache: its number in [`crate::Cpu::llc`].
    pub llc: u32,
    /// Its ways, 1–32.
    pub ways: u32,
    /// The least number of bits in a mask.
    pub least: u32,
    /// Must the bits of a mask be one run?
    pub contiguous: bool,
    /// Ways that devices fill, too, a bit each.
    pub with_devices: u32,
}

/// CPUs that have one frequency together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequencyControl {
    /// The CPUs.
    pub cpus: CpuSet,
    /// Lowest, kHz.
    pub min_khz: u32,
    /// Highest, kHz; that before the policy where another program had set a lower one.
    pub max_khz: u32,
    /// Step, kHz; 0: any value, and the hardware rounds.
    pub step_khz: u32,
}

/// Unit of a memory throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleUnit {
    /// Per cent of what a core can draw (Intel's MBA, Arm's MBW_MAX).
    PerCent,
    /// MB/s (resctrl's `mba_MBps`).
    MegabytesPerSecond,
    /// Eighths of a GB/s (AMD).
    EighthsOfGigabyte,
}

impl ThrottleUnit {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ThrottleUnit::PerCent => "%",
            ThrottleUnit::MegabytesPerSecond => "MB/s",
            ThrottleUnit::EighthsOfGigabyte => "/8 GB/s",
        }
    }
}

/// The memory throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottleControl {
    /// The smallest value.
    pub least: u32,
    /// The largest value: no throttle.
    pub most: u32,
    /// Step; the hardware rounds to it.
    pub step: u32,
    /// Unit of the three.
    pub unit: ThrottleUnit,
}

/// Frequencies of a GPU that shares the CPUs' memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuControl {
    /// Lowest, kHz.
    pub min_khz: u32,
    /// Highest, kHz.
    pub max_khz: u32,
    /// Step, kHz.
    pub step_khz: u32,
}

/// What there is to turn. Empty where the host cannot report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Controls {
    /// Last-level caches with ways that can be given out.
    pub caches: Vec<WayControl>,
    /// Groups that ways and throttles can still be given to; None: any number.
    pub groups_left: Option<u32>,
    /// Frequencies, by the CPUs that share one.
    pub frequencies: Vec<FrequencyControl>,
    /// The GPU's frequencies; None: there is no GPU on the CPUs' memory, or it may not be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuControl>,
    /// The memory throttle.
    pub throttle: Option<ThrottleControl>,
    /// Memory nodes, by number.
    pub nodes: Vec<u32>,
}

impl Controls {
    /// Ways that every cache has, and the least number of bits that every cache accepts; None: no cache has ways to set.
    #[must_use]
    pub fn ways(&self) -> Option<(u32, u32)> {
        let ways = self.caches.iter().map(|cache| cache.ways).min()?;
        let least = self.caches.iter().map(|cache| cache.least).max()?.max(1);
        (ways >= 2 * least).then_some((ways, least))
    }

    /// The frequencies of a CPU.
    #[must_use]
    pub fn frequency_of(&self, cpu: CpuId) -> Option<&FrequencyControl> {
        self.frequencies.iter().find(|control| control.cpus.contains(cpu))
    }

    /// Lowest, highest and step of the frequencies of these CPUs together; None: some CPU has none.
    #[must_use]
    pub fn frequencies_of(&self, cpus: &CpuSet) -> Option<(u32, u32, u32)> {
        let mut left = *cpus;
        let mut range: Option<(u32, u32, u32)> = None;
        for control in self.frequencies.iter().filter(|control| !control.cpus.is_disjoint(cpus)) {
            left = left.difference(&control.cpus);
            let (low, high, step) = range.unwrap_or((u32::MAX, 0, 0));
            range = Some((low.min(control.min_khz), high.max(control.max_khz), step.max(control.step_khz)));
        }
        range.filter(|_| left.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_that_all_accept() {
        let cache = |llc, ways, least| WayControl { llc, ways, least, contiguous: true, with_devices: 0 };
        let of = |cpus: &str, min_khz, max_khz| FrequencyControl {
            cpus: cpus.parse().unwrap(),
            min_khz,
            max_khz,
            step_khz: 100_000,
        };
        let controls = Controls {
            caches: vec![cache(0, 20, 2), cache(1, 16, 1)],
            frequencies: vec![of("0-1", 800_000, 2_000_000), of("2", 1_000_000, 3_000_000)],
            ..Controls::default()
        };
        assert_eq!(controls.ways(), Some((16, 2)));
        assert_eq!(controls.frequencies_of(&"0,2".parse().unwrap()), Some((800_000, 3_000_000, 100_000)));
        assert_eq!(controls.frequencies_of(&"2-3".parse().unwrap()), None, "CPU 3 has none");
        assert_eq!(Controls::default().ways(), None);
        assert_eq!(
            Controls { caches: vec![cache(0, 3, 2)], ..Controls::default() }.ways(),
            None,
            "it cannot be divided"
        );
    }
}
