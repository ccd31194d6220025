//! The machine's numbers.

use quell_model::{BytesPerSecond, Nanos};

/// What the toy machine is like, beside its topology.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Ways of the last-level cache; the toy has one cache for all CPUs.
    pub cache_ways: u32,
    /// What the memory bus carries at most.
    pub memory_bandwidth: BytesPerSecond,
    /// Highest frequency, kHz.
    pub max_khz: u32,
    /// Lowest frequency, kHz.
    pub min_khz: u32,
    /// Speed of a CPU whose sibling is busy, in thousandths of its speed with an idle sibling.
    pub sibling_speed_per_mille: u32,
    /// How long a sample that was asked for takes.
    pub sample_latency: Nanos,
    /// How long a grant or revocation takes.
    pub grant_latency: Nanos,
    /// How long one turn of the loop takes at least.
    pub turn: Nanos,
    /// How long it waits at most when a policy waits for events only.
    pub patience: Nanos,
}

impl Default for Machine {
    /// As snu2020 §3.4.2 (20 ways; 1.2–2.1 GHz) and caladan-osdi20 App. A (25 GB/s are 70–80 % of its capacity); the
    /// rest is chosen freely.
    fn default() -> Machine {
        Machine {
            cache_ways: 20,
            memory_bandwidth: BytesPerSecond(33e9),
            max_khz: 2_100_000,
            min_khz: 1_200_000,
            sibling_speed_per_mille: 600,
            sample_latency: Nanos::from_micros(1),
            grant_latency: Nanos::ZERO,
            turn: Nanos(100),
            patience: Nanos::from_millis(10),
        }
    }
}

impl Machine {
    /// The mask of all ways.
    #[must_use]
    pub fn all_ways(&self) -> u32 {
        u32::MAX >> (32 - self.cache_ways.clamp(1, 32))
    }
}
