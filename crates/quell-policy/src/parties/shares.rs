//! Each workload's number of cores and ways, and their places.

use quell_model::{CpuSet, Topology};
use serde::{Deserialize, Serialize};

/// The divided resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Resource {
    Cores,
    Ways,
}

impl Resource {
    /// The resource to try next (`nextState`: cores, cache, frequency in a circle; without frequency two are left).
    pub fn other(self, has_ways: bool) -> Resource {
        match self {
            Resource::Cores if has_ways => Resource::Ways,
            _ => Resource::Cores,
        }
    }

    pub fn upsized(self) -> &'static str {
        match self {
            Resource::Cores => "it misses its latency: one core more",
            Resource::Ways => "it misses its latency: one cache way more",
        }
    }

    pub fn downsized(self) -> &'static str {
        match self {
            Resource::Cores => "it has slack: one core less",
            Resource::Ways => "it has slack: one cache way less",
        }
    }
}

/// Units of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Units {
    /// By service.
    of: Vec<u32>,
    /// All best-effort workloads' together.
    rest: u32,
}

/// All units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Shares {
    cores: Units,
    ways: Units,
    has_best_effort: bool,
}

impl Units {
    /// Divides evenly; the remainder goes to the first.
    fn divide(&mut self, services: usize, has_rest: bool, all: u32) {
        let parts = (services as u32 + u32::from(has_rest)).max(1);
        self.of.clear();
        let mut left = all;
        for place in 0..services as u32 {
            let own = all / parts + u32::from(place < all % parts);
            self.of.push(own);
            left -= own;
        }
        self.rest = left;
    }
}

impl Shares {
    pub fn divide(&mut self, services: usize, has_best_effort: bool, cores: u32, ways: u32) {
        self.has_best_effort = has_best_effort;
        self.cores.divide(services, has_best_effort, cores);
        self.ways.divide(services, has_best_effort, ways);
    }

    pub fn has_best_effort(&self) -> bool {
        self.has_best_effort
    }

    fn units(&self, resource: Resource) -> &Units {
        match resource {
            Resource::Cores => &self.cores,
            Resource::Ways => &self.ways,
        }
    }

    fn units_mut(&mut self, resource: Resource) -> &mut Units {
        match resource {
            Resource::Cores => &mut self.cores,
            Resource::Ways => &mut self.ways,
        }
    }

    /// May the service lose a unit? Each keeps at least one.
    pub fn may_lose(&self, place: usize, resource: Resource) -> bool {
        self.units(resource).of.get(place).is_some_and(|&units| units > 1)
    }

    /// One unit goes to a service: best-effort work's, or else this other service's. None: neither has one; else whether it
    /// was that service's.
    pub fn take_for(&mut self, place: usize, resource: Resource, other: Option<usize>) -> Option<bool> {
        let least = u32::from(self.has_best_effort);
        let units = self.units_mut(resource);
        let is_services = units.rest <= least;
        if is_services {
            units.of[other?] -= 1;
        } else {
            units.rest -= 1;
        }
        units.of[place] += 1;
        Some(is_services)
    }

    /// One unit of a service goes to best-effort work.
    pub fn release(&mut self, place: usize, resource: Resource) -> bool {
        if !self.may_lose(place, resource) {
            return false;
        }
        let units = self.units_mut(resource);
        (units.of[place], units.rest) = (units.of[place] - 1, units.rest + 1);
        true
    }

    /// It gets back what it released.
    pub fn give(&mut self, place: usize, resource: Resource) {
        let units = self.units_mut(resource);
        if units.rest > 0 && place < units.of.len() {
            (units.of[place], units.rest) = (units.of[place] + 1, units.rest - 1);
        }
    }

    /// The CPUs of a service, or of best-effort work: services from the first on, hyperthread beside hyperthread ("a
    /// policy that prefers self pairings", caladan-osdi20 §7). One without cores shares those of best-effort work, or
    /// else all.
    pub fn cpus(&self, place: Option<usize>, topology: &Topology, pool: &CpuSet) -> CpuSet {
        let before = |place: usize| self.cores.of[..place].iter().sum::<u32>() as usize;
        let (from, count) = match place {
            Some(place) => (before(place), self.cores.of[place] as usize),
            None => (before(self.cores.of.len()), self.cores.rest as usize),
        };
        let (mut own, mut number) = (CpuSet::EMPTY, 0);
        for core in topology.cores() {
            for cpu in core.intersection(pool).iter() {
                if (from..from + count).contains(&number) {
                    own.insert(cpu);
                }
                number += 1;
            }
        }
        if own.is_empty() { *pool } else { own }
    }

    /// The ways of a service, or of best-effort work: a row of bits.
    pub fn ways(&self, place: Option<usize>, all: u32) -> u32 {
        let before = |place: usize| self.ways.of[..place].iter().sum::<u32>();
        let (from, count) = match place {
            Some(place) => (before(place), self.ways.of[place]),
            None => (before(self.ways.of.len()), self.ways.rest),
        };
        let row = |count: u32| u32::MAX.checked_shr(32 - count.min(32)).unwrap_or(0);
        let own = row(count).checked_shl(from).unwrap_or(0) & row(all);
        if own == 0 { row(all.max(1)) } else { own }
    }
}
