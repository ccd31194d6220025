//! The fair class: EEVDF, CFS and BVT over a tree of groups.

mod average;
#[cfg(test)]
mod lag_tests;
mod own;
mod run;
mod tree;
mod virtual_time;

pub(crate) use crate::tree::{Arrival, Departure};

use crate::KernelConfig;
use crate::chance::Chance;

/// Sizes that depend on the number of CPUs, ns, and what is looked at now and then.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    pub base_slice: u64,
    pub latency: u64,
    pub min_granularity: u64,
    pub wakeup_granularity: u64,
    /// When averages of loads on idle CPUs are looked at next.
    pub fades_at: u64,
    /// Has a thread ever had a slice of its own? Before that no group's slice is looked at.
    pub own_slices: bool,
    pub chance: Chance,
}

impl Sizes {
    pub fn of(config: &KernelConfig, cpus: usize) -> Sizes {
        Sizes {
            base_slice: config.base_slice_of(cpus),
            latency: config.latency_of(cpus),
            min_granularity: config.min_granularity_of(cpus),
            wakeup_granularity: config.wakeup_granularity_of(cpus),
            fades_at: 0,
            own_slices: false,
            chance: Chance::new(0, 0, None),
        }
    }
}
