//! Figure 1's division of CPUs once and for all, and how soon a policy reacts to a collection.

use quell_model::{CpuId, CpuSet, Layer, Nanos, Policy, Stack, View};

use super::windows::COLLECTING;
use super::{Be, Lc, MANAGED, Means, Threads, host};
use crate::host::drive;
use crate::workload::{Arrivals, CpuList};
use crate::{SimError, SimHost, WorkloadSpec};

/// Memcached on this many CPUs, whole cores, beside best-effort work on all others.
#[must_use]
pub fn static_partition(rate: f64, cpus: u32, be: Option<Be>) -> Vec<WorkloadSpec> {
    let topology = Means::Sets.machine().topology;
    let in_order: Vec<CpuId> = topology.cores().iter().flat_map(CpuSet::iter).collect();
    let (own, others) = in_order.split_at(cpus as usize);
    let set = |cpus: &[CpuId]| Some(CpuList(cpus.iter().copied().collect()));
    let arrivals = Arrivals::Poisson(rate);
    let memcached = Lc::Memcached.spec(arrivals, cpus, (Threads::Runtime, cpus), None);
    let memcached = WorkloadSpec { cpuset: set(own), ..memcached };
    let be = be.map(|be| WorkloadSpec { cpuset: set(others), ..be.spec(MANAGED - cpus) });
    std::iter::once(memcached).chain(be).collect()
}

/// Runs until a collection begins, and on until `seen`, which receives the time since then and what the policy saw and did,
/// says that it has seen enough, or 100 ms are over. Says when the collection began.
///
/// # Errors
/// [`SimError::Scenario`] if a workload makes no sense.
pub fn reaction<'a, P: Policy>(
    means: Means,
    workloads: &[WorkloadSpec],
    policy: &'a mut P,
    seed: u64,
    mut seen: impl FnMut(Nanos, &View, &Layer<&'a mut P>) -> bool,
) -> Result<Nanos, SimError> {
    let mut host = host(means, workloads, policy, seed)?;
    let mut stack = Stack::of_one(policy, host.view());
    let collects = |host: &SimHost| host.sim().loads.iter().any(|load| load.turn() == Some(COLLECTING));
    let step = Nanos::from_micros(10);
    while !collects(&host) && host.sim().now() < Nanos::from_secs(10) {
        let until = host.sim().now() + step;
        drive(&mut host, &mut stack, until, |_, _| {});
    }
    let began = host.sim().now();
    let mut enough = false;
    while !enough && host.sim().now() < began + Nanos::from_millis(100) {
        let until = host.sim().now() + step;
        drive(&mut host, &mut stack, until, |host, stack| {
            let since = host.sim().now() - began;
            enough |= stack.stepped().any(|layer| seen(since, stack.view(), layer));
        });
    }
    Ok(began)
}
