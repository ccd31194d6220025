//! The CPUs of all reservations, changed as little as possible.

use std::fmt;

use quell_model::{CpuCount, CpuSet, Reservation, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::choose;

/// Exclusive CPUs by workload, the system reserve, and the pool that the others share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    exclusive: Vec<(WorkloadId, CpuSet)>,
    system: CpuSet,
    shared: CpuSet,
}

impl Placement {
    /// The workload's own CPUs; empty if it has none.
    #[must_use]
    pub fn exclusive(&self, workload: WorkloadId) -> CpuSet {
        self.exclusive.iter().find(|(id, _)| *id == workload).map_or(CpuSet::EMPTY, |(_, cpus)| *cpus)
    }

    /// The CPUs that standard workloads share.
    #[must_use]
    pub fn shared(&self) -> CpuSet {
        self.shared
    }

    /// The CPUs kept for system services.
    #[must_use]
    pub fn system(&self) -> CpuSet {
        self.system
    }

    fn reserved(&self) -> CpuSet {
        self.exclusive.iter().fold(self.system, |all, (_, cpus)| all.union(cpus))
    }
}

/// A strict reservation that cannot be honoured, with the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overcommitment {
    /// Whole CPUs asked for.
    pub asked: u32,
    /// CPUs in the pool.
    pub pool: u32,
    /// Of these kept for the system.
    pub system: u32,
    /// Of these reserved by other strict workloads.
    pub reserved: u32,
    /// Of these promised to standard workloads, rounded up to whole CPUs.
    pub standard: u32,
    /// Of these the CPUs that its cgroups allow it; None: all.
    pub allowed: Option<CpuSet>,
}

impl fmt::Display for Overcommitment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overcommitment { asked, pool, system, reserved, standard, allowed } = self;
        if let Some(allowed) = allowed {
            return write!(
                f,
                "asks for {asked} CPUs of its own, and its cgroups allow it CPUs {allowed}, of which too few are free \
                 ({reserved} are reserved by others, {standard} promised to standard workloads); it shares them instead: widen \
                 AllowedCPUs= of its unit or slice, or lower a request"
            );
        }
        let free = pool.saturating_sub(system + reserved + standard);
        write!(
            f,
            "asks for {asked} CPUs of its own, but only {free} of {pool} can be reserved ({reserved} are reserved by \
             others, {standard} promised to standard workloads, {system} kept for the system); it shares the pool \
             instead: lower a request or add CPUs"
        )
    }
}

/// Brings the placement up to date with the workloads and CPUs in view. A placement stays if possible; workloads that
/// were placed before take precedence over new ones, and among new ones the order of their slots counts. Returns the
/// strict workloads that do not fit.
pub fn place(placement: &mut Placement, view: &View, system_reserve: usize) -> Vec<(WorkloadId, Overcommitment)> {
    let pool = view.pool();
    let system_reserve = system_reserve.min(pool.len().saturating_sub(1));
    let strict = |id| view.workload(id).is_some_and(|workload| workload.reservation == Reservation::Strict);
    placement.exclusive.retain(|(id, _)| strict(*id));
    if placement.system.len() != system_reserve || !placement.system.is_subset(&pool) {
        placement.system = slowest(view, &pool.difference(&placement.reserved()), system_reserve);
    }

    // CPUs promised to standard workloads stay theirs: at least one CPU if there is any such workload.
    let standard: CpuCount = view
        .owned()
        .map(|(_, workload)| match workload.reservation {
            Reservation::Strict => workload.cpus.fraction(),
            Reservation::Standard => workload.cpus,
        })
        .sum();
    let anyone = view.owned().any(|(_, workload)| {
        workload.reservation == Reservation::Standard || workload.cpus.fraction() > CpuCount::ZERO
    });
    let standard = standard.ceil().max(u32::from(anyone));

    let mut refused = Vec::new();
    let placed: Vec<WorkloadId> = placement.exclusive.iter().map(|(id, _)| *id).collect();
    // Those that may not have every CPU choose first.
    let mut new: Vec<WorkloadId> =
        view.owned().map(|(id, _)| id).filter(|id| strict(*id) && !placed.contains(id)).collect();
    new.sort_by_key(|id| view.within(*id, &pool).len());
    for id in placed.iter().copied().chain(new) {
        let Some(workload) = view.workload(id) else { continue };
        // More than its cgroups' quota lets it use would be wasted.
        let quota = view.allowance(id).and_then(|allowed| allowed.quota);
        let asked = quota.map_or(workload.cpus.floor(), |quota| workload.cpus.floor().min(quota.ceil()));
        let old = placement.exclusive(id);
        let own = view.within(id, &pool);
        if old.len() == asked as usize && old.is_subset(&own) {
            continue;
        }
        placement.exclusive.retain(|(other, _)| *other != id);
        let reserved = placement.reserved();
        let free = pool.difference(&reserved);
        let room = (free.len() as u32).saturating_sub(standard);
        let free = view.within(id, &free.difference(&kept(view, &free)));
        let chosen = if asked <= room { grown(view, &old.intersection(&free), &free, asked as usize) } else { None };
        match chosen {
            Some(cpus) if !cpus.is_empty() => placement.exclusive.push((id, cpus)),
            _ => {
                let system = placement.system.len() as u32;
                let numbers = Overcommitment {
                    asked,
                    pool: pool.len() as u32,
                    system,
                    reserved: reserved.len() as u32 - system,
                    standard,
                    allowed: (own != pool).then_some(own),
                };
                refused.push((id, numbers));
            }
        }
    }
    placement.shared = pool.difference(&placement.reserved());
    refused
}

/// CPUs that are kept for standard workloads whose cgroups do not allow them every CPU: each finds one that is shared.
fn kept(view: &View, free: &CpuSet) -> CpuSet {
    let mut kept = CpuSet::EMPTY;
    for (id, workload) in view.owned() {
        let shares = workload.reservation == Reservation::Standard || workload.cpus.fraction() > CpuCount::ZERO;
        if !shares || view.allowance(id).is_none_or(|allowed| allowed.cpus.is_none()) {
            continue;
        }
        let own = view.within(id, free);
        if let Some(lowest) = own.lowest().filter(|_| own.is_disjoint(&kept)) {
            kept.insert(lowest);
        }
    }
    kept
}

/// A set of this size out of `free` that keeps as many of the `old` CPUs as it can.
fn grown(view: &View, old: &CpuSet, free: &CpuSet, count: usize) -> Option<CpuSet> {
    if old.len() >= count {
        return choose(&view.topology, old, count);
    }
    let more = choose(&view.topology, &free.difference(old), count - old.len())?;
    Some(old.union(&more))
}

/// The slowest CPUs, and of these the lowest.
fn slowest(view: &View, free: &CpuSet, count: usize) -> CpuSet {
    let speeds = view.topology.speeds().iter().rev();
    speeds.flat_map(|speed| speed.intersection(free).iter().collect::<Vec<_>>()).take(count).collect()
}
