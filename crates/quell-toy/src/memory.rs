//! The effect model: what running workloads do to each other through cache and memory bus.

use crate::CacheUse;

/// What one workload asks of cache and memory at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// CPUs on which it runs, scaled by their frequency (1 = a CPU at its highest).
    pub running: f64,
    /// The ways that it may fill.
    pub ways: u32,
    /// Its use of the cache.
    pub cache: CacheUse,
    /// Bytes per second that each running CPU asks for.
    pub bandwidth: f64,
}

/// What it gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Hits per reference.
    pub hit_ratio: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Its speed against an undisturbed run, 0–1.
    pub speed: f64,
}

impl Default for Effect {
    fn default() -> Effect {
        Effect { hit_ratio: 0.0, bandwidth: 0.0, speed: 1.0 }
    }
}

/// What each of the workloads gets on a bus of this capacity (bytes per second).
///
/// A way is shared by those who may fill it, in proportion to the bandwidth that they ask for plus a little, so that
/// a streaming co-runner evicts much. A working set that does not fit hits in proportion to the part that does. Above
/// the bus's capacity everybody gets the same fraction of what they ask for.
#[must_use]
pub fn contend(demands: &[Demand], capacity: f64) -> Vec<Effect> {
    let wanted: f64 = demands.iter().map(|demand| demand.running * demand.bandwidth).sum();
    let granted = if wanted > capacity { capacity / wanted } else { 1.0 };
    let pull = |demand: &Demand| demand.running * (demand.bandwidth + 1e9);
    let mut way_pull = [0.0; 32];
    for demand in demands {
        for way in (0..32).filter(|way| demand.ways >> way & 1 == 1) {
            way_pull[way] += pull(demand);
        }
    }
    let effect = |demand: &Demand| {
        let own = pull(demand);
        let ways: f64 = (0..32)
            .filter(|way| demand.ways >> way & 1 == 1)
            .map(|way| if own > 0.0 { own / way_pull[way] } else { 1.0 })
            .sum();
        let fit = if demand.cache.ways > 0.0 { (ways / demand.cache.ways).min(1.0) } else { 1.0 };
        let bus = if demand.bandwidth > 0.0 { granted } else { 1.0 };
        Effect {
            hit_ratio: demand.cache.hit_ratio * fit,
            bandwidth: demand.running * demand.bandwidth * bus,
            speed: bus * (0.5 + 0.5 * fit),
        }
    };
    demands.iter().map(effect).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn victim(ways: u32) -> Demand {
        Demand { running: 1.0, ways, cache: CacheUse { ways: 8.0, hit_ratio: 0.9 }, bandwidth: 0.0 }
    }

    fn stream(ways: u32) -> Demand {
        Demand { running: 4.0, ways, cache: CacheUse::default(), bandwidth: 10e9 }
    }

    #[test]
    fn a_streaming_co_runner_evicts_and_a_partition_protects() {
        let alone = contend(&[victim(0xfffff)], 33e9)[0];
        let beside = contend(&[victim(0xfffff), stream(0xfffff)], 33e9)[0];
        let apart = contend(&[victim(0xff), stream(0xfff00)], 33e9)[0];
        assert_eq!(alone.hit_ratio, 0.9);
        assert!(beside.hit_ratio < 0.3 && beside.speed < alone.speed);
        assert_eq!(apart.hit_ratio, alone.hit_ratio);
    }

    #[test]
    fn the_bus_never_carries_more_than_it_can() {
        let effects = contend(&[stream(1), stream(1)], 33e9);
        let carried: f64 = effects.iter().map(|effect| effect.bandwidth).sum();
        assert!((carried - 33e9).abs() < 1.0);
        assert!(effects[0].speed < 0.5);
    }
}
