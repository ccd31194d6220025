//! Valid values of knobs: the one place where they are checked, on every host.

use std::ops::RangeInclusive;

use crate::{CpuCount, CpuSet, Knob, LlcWays, ModelError, Nanos, NodeSet, SchedClass};

/// Bounds of this machine, in addition to Linux's own bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The CPUs that are online.
    pub online: CpuSet,
    /// Ways of a last-level cache, 0–32; 0 where they cannot be set.
    pub cache_ways: u32,
    /// The least number of bits in a mask of ways; 0 and 1 are the same.
    pub least_ways: u32,
    /// Number of last-level caches; 0 where that is not checked.
    pub llcs: u32,
    /// A CPU's frequencies, kHz.
    pub khz: RangeInclusive<u32>,
    /// The GPU's frequencies, kHz.
    pub gpu_khz: RangeInclusive<u32>,
    /// Values of the memory throttle.
    pub throttle: RangeInclusive<u32>,
    /// Memory nodes; None where they are not checked.
    pub nodes: Option<NodeSet>,
}

impl Bounds {
    /// A machine with these CPUs online. Cache ways and frequencies are not checked.
    #[must_use]
    pub fn of_cpus(online: CpuSet) -> Bounds {
        let any = 0..=u32::MAX;
        let (khz, gpu_khz, throttle) = (any.clone(), any.clone(), any);
        Bounds { online, cache_ways: 0, least_ways: 1, llcs: 0, khz, gpu_khz, throttle, nodes: None }
    }
}

/// Does cache allocation accept the mask: one run of at least one bit within the machine's ways?
#[must_use]
pub fn is_way_mask(mask: u32, ways: u32) -> bool {
    let run = u64::from(mask >> mask.trailing_zeros().min(31));
    mask != 0 && u64::from(mask) < 1 << ways && run & (run + 1) == 0
}

impl Knob {
    /// Values of [`Knob::Weight`].
    pub const WEIGHTS: RangeInclusive<u32> = 1..=10_000;
    /// Values of [`Knob::WakeUpLatency`]: Linux's bounds on slices.
    pub const LATENCIES: RangeInclusive<Nanos> = Nanos::from_micros(100)..=Nanos::from_millis(100);
    /// The longest [`Knob::Warp`].
    pub const LONGEST_WARP: Nanos = Nanos::from_secs(100);
    /// Nice values of [`SchedClass::Fair`] and [`SchedClass::Batch`].
    pub const NICES: RangeInclusive<i8> = -20..=19;
    /// Priorities of [`SchedClass::Fifo`] and [`SchedClass::RoundRobin`].
    pub const PRIORITIES: RangeInclusive<u8> = 1..=99;
    /// The smallest [`Knob::Quota`]: Linux takes no less than 1 ms in a period of 100 ms.
    pub const LEAST_QUOTA: CpuCount = CpuCount(10);

    /// Is the value valid on a machine with these bounds?
    ///
    /// # Errors
    /// [`ModelError::Knob`]: the fault, and a valid choice.
    pub fn check(&self, bounds: &Bounds) -> Result<(), ModelError> {
        match *self {
            Knob::Cpus(cpus) if cpus.is_disjoint(&bounds.online) => {
                bad(format!("of the CPUs '{cpus}' none is online"), format!("choose some of {}", bounds.online))
            }
            Knob::Weight(weight) => within("weight", &weight, &Knob::WEIGHTS),
            Knob::WakeUpLatency(Some(latency)) => within("wake-up latency", &latency, &Knob::LATENCIES),
            Knob::Warp(Some(warp)) => within("warp", &warp.by, &(Nanos::ZERO..=Knob::LONGEST_WARP)),
            Knob::Quota(Some(quota)) if quota < Knob::LEAST_QUOTA => {
                bad(format!("a quota of {quota} CPUs is too small"), format!("choose at least {}", Knob::LEAST_QUOTA))
            }
            Knob::Class(SchedClass::Fifo { priority } | SchedClass::RoundRobin { priority }) => {
                within("real-time priority", &priority, &Knob::PRIORITIES)
            }
            Knob::Class(SchedClass::Fair { nice, .. } | SchedClass::Batch { nice }) => {
                within("nice value", &nice, &Knob::NICES)
            }
            Knob::WaysOfLlc(LlcWays { llc, .. }) if bounds.llcs > 0 && llc >= bounds.llcs => {
                bad(format!("there is no LLC {llc}"), format!("choose one from 0 to {}", bounds.llcs - 1))
            }
            Knob::CacheWays(mask) | Knob::WaysOfLlc(LlcWays { mask, .. })
                if bounds.cache_ways > 0 && !is_way_mask(mask, bounds.cache_ways) =>
            {
                let fix = format!("choose one run of bits among the lowest {}", bounds.cache_ways);
                bad(format!("the cache way mask {mask:#x} is not valid"), fix)
            }
            Knob::CacheWays(mask) | Knob::WaysOfLlc(LlcWays { mask, .. }) if mask.count_ones() < bounds.least_ways => {
                let fix = format!("choose at least {} bits", bounds.least_ways);
                bad(format!("a mask of cache ways of {mask:#x} is too small"), fix)
            }
            Knob::Throttle(value) => within("memory throttle", &value, &bounds.throttle),
            Knob::MemoryNodes(nodes) if nodes.0 == 0 || bounds.nodes.is_some_and(|all| nodes.0 & !all.0 != 0) => {
                let all = bounds.nodes.unwrap_or_default();
                bad(format!("the memory nodes '{nodes}' do not all exist"), format!("choose some of {all}"))
            }
            Knob::GpuFrequencyKhz(khz) => within("GPU frequency in kHz", &khz, &bounds.gpu_khz),
            Knob::MaxFrequencyKhz(khz) => within("frequency in kHz", &khz, &bounds.khz),
            _ => Ok(()),
        }
    }
}

fn within<T: PartialOrd + std::fmt::Display>(
    what: &str,
    value: &T,
    range: &RangeInclusive<T>,
) -> Result<(), ModelError> {
    if range.contains(value) {
        return Ok(());
    }
    bad(format!("a {what} of {value} does not exist"), format!("choose one from {} to {}", range.start(), range.end()))
}

fn bad(what: String, fix: String) -> Result<(), ModelError> {
    Err(ModelError::Knob { what, fix })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(knob: Knob) -> String {
        let bounds = Bounds {
            cache_ways: 11,
            llcs: 2,
            khz: 800_000..=3_000_000,
            gpu_khz: 140_250..=1_300_500,
            throttle: 10..=100,
            nodes: Some(NodeSet(0b11)),
            ..Bounds::of_cpus("0-3".parse().unwrap())
        };
        knob.check(&bounds).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn the_ends_of_every_range_exist_and_what_is_beyond_is_refused_with_the_fix() {
        let fifo = |priority| Knob::Class(SchedClass::Fifo { priority });
        let fair = |nice| Knob::Class(SchedClass::Fair { nice, slice: None });
        let cpus = |text: &str| Knob::Cpus(text.parse().unwrap());
        for (fine, bad, fix) in [
            ([Knob::Weight(1), Knob::Weight(10_000)], [Knob::Weight(0), Knob::Weight(10_001)], "from 1 to 10000"),
            ([fifo(1), fifo(99)], [fifo(0), fifo(100)], "from 1 to 99"),
            ([fair(-20), fair(19)], [fair(-21), fair(20)], "from -20 to 19"),
            ([cpus("3-9"), cpus("0")], [cpus(""), cpus("4-9")], "some of 0-3"),
            (
                [Knob::CacheWays(1), Knob::CacheWays(0x7f0)],
                [Knob::CacheWays(0b101), Knob::CacheWays(0xf00)],
                "lowest 11",
            ),
            (
                [Knob::WakeUpLatency(None), Knob::WakeUpLatency(Some(Nanos::from_millis(100)))],
                [0, 100_001].map(|micros| Knob::WakeUpLatency(Some(Nanos::from_micros(micros)))),
                "from 100 µs to 100 ms",
            ),
            (
                [Knob::Quota(None), Knob::Quota(Some(CpuCount(10)))],
                [Knob::Quota(Some(CpuCount(9))), Knob::Quota(Some(CpuCount::ZERO))],
                "at least 0.01",
            ),
            (
                [800_000, 3_000_000].map(Knob::MaxFrequencyKhz),
                [799_999, 3_000_001].map(Knob::MaxFrequencyKhz),
                "from 800000 to 3000000",
            ),
            (
                [0, 1].map(|llc| Knob::WaysOfLlc(LlcWays { llc, mask: 0b11 })),
                [2, 3].map(|llc| Knob::WaysOfLlc(LlcWays { llc, mask: 0b11 })),
                "from 0 to 1",
            ),
            (
                [140_250, 1_300_500].map(Knob::GpuFrequencyKhz),
                [140_249, 1_300_501].map(Knob::GpuFrequencyKhz),
                "from 140250 to 1300500",
            ),
            ([10, 100].map(Knob::Throttle), [9, 101].map(Knob::Throttle), "from 10 to 100"),
            (
                [0b10, 0b11].map(|nodes| Knob::MemoryNodes(NodeSet(nodes))),
                [0b100, 0].map(|nodes| Knob::MemoryNodes(NodeSet(nodes))),
                "some of 0-1",
            ),
        ] {
            assert_eq!(fine.map(said), ["", ""], "{fine:?}");
            assert!(bad.iter().all(|knob| said(*knob).contains(fix)), "{:?}", bad.map(said));
        }
    }

    #[test]
    fn masks_of_ways_are_one_run() {
        for (mask, ways, fits) in
            [(0, 4, false), (0b1111, 4, true), (0b110, 4, true), (0b11111, 4, false), (u32::MAX, 32, true)]
        {
            assert_eq!(is_way_mask(mask, ways), fits, "{mask:b} of {ways}");
        }
    }
}
