//! The kubelet's static CPU manager policy (rkube-socc21 §7; Kubernetes' `pkg/kubelet/cm/cpumanager`, `policy_static.go` and
//! `cpu_assignment.go`): a container whose limit is its request, in whole CPUs, has CPUs of its own; all others share the rest.

use quell_model::{CpuSet, Topology};

use super::SYSTEM_CPUS;
use crate::WorkloadSpec;
use crate::workload::CpuList;

/// Sets the containers' CPUs, in the order in which they start.
pub fn pin(containers: &mut [WorkloadSpec], topology: &Topology) {
    let all = topology.all();
    // The system's CPUs are given to no container alone, but are in the shared pool: "those pods will still share the CPU with
    // system services" is of that pool.
    let reserved = take(&all, SYSTEM_CPUS as usize, topology);
    let mut free = all.difference(&reserved);
    let is_guaranteed = |container: &WorkloadSpec| container.limit == Some(container.cpus);
    for container in containers.iter_mut().filter(|container| is_guaranteed(container)) {
        let own = take(&free, container.cpus.ceil() as usize, topology);
        free = free.difference(&own);
        container.cpuset = Some(CpuList(own));
    }
    for container in containers.iter_mut().filter(|container| !is_guaranteed(container)) {
        container.cpuset = Some(CpuList(free.union(&reserved)));
    }
}

/// Takes `count` of the free CPUs: whole sockets, then whole cores on the socket with the fewest free CPUs, then single ones
/// (`takeByTopology`).
fn take(free: &CpuSet, count: usize, topology: &Topology) -> CpuSet {
    let mut taken = CpuSet::EMPTY;
    let mut sockets: Vec<CpuSet> = topology.sockets().to_vec();
    sockets.sort_by_key(|socket| socket.intersection(free).len());
    let whole = |of: &CpuSet, taken: &CpuSet| of.is_subset(free) && taken.len() + of.len() <= count;
    for socket in &sockets {
        if whole(socket, &taken) {
            taken = taken.union(socket);
        }
    }
    for socket in &sockets {
        for core in topology.cores().iter().filter(|core| core.is_subset(socket)) {
            if core.is_disjoint(&taken) && whole(core, &taken) {
                taken = taken.union(core);
            }
        }
    }
    for socket in &sockets {
        for cpu in socket.intersection(free).difference(&taken).iter() {
            if taken.len() < count {
                taken.insert(cpu);
            }
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::super::{container, strict};
    use super::*;
    use quell_model::Class;

    #[test]
    fn guaranteed_containers_have_cores_of_their_own_and_the_others_the_rest() {
        let topology = Topology::synthetic(2, 1, 6, 2);
        let others = || container("burstable", Class::BestEffort, 6, false);
        let mut containers = [strict("a", 12), strict("b", 3), others(), others()];
        pin(&mut containers, &topology);
        let sets = containers.each_ref().map(|container| container.cpuset.unwrap().0);
        assert_eq!(sets.map(|set| set.len()), [12, 3, 9, 9], "the system's two are in the shared pool");
        assert!(topology.sockets().contains(&sets[0]), "a whole socket");
        assert!(sets[0].is_disjoint(&sets[1]) && sets[2].is_disjoint(&sets[0].union(&sets[1])));
        assert_eq!(sets[2], sets[3]);
        let whole = topology.cores().iter().filter(|core| core.is_subset(&sets[1])).count();
        assert_eq!(whole, 1, "whole cores first");
    }
}
