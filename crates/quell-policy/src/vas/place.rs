//! Choice of CPUs for servers: one a CPU, whole cores before siblings (vas-rtns21 §3.2: one time-sensitive VCPU a
//! PCPU).

use quell_model::{CpuId, CpuSet, Topology};

/// `count` CPUs of the pool without a server; None if there are fewer. `before` are the former ones, which are kept as
/// far as possible; `taken` have servers.
#[must_use]
pub fn place(topology: &Topology, pool: &CpuSet, taken: &CpuSet, before: &CpuSet, count: usize) -> Option<CpuSet> {
    let free = pool.difference(taken);
    if free.len() < count {
        return None;
    }
    let mut chosen: CpuSet = before.intersection(&free).iter().take(count).collect();
    while chosen.len() < count {
        let served = taken.union(&chosen);
        let left = free.difference(&chosen);
        let neighbours = |cpu: &CpuId| topology.siblings_of(*cpu).intersection(&served).len();
        chosen.insert(left.iter().min_by_key(neighbours)?);
    }
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_cores_come_before_siblings_and_what_one_has_it_keeps() {
        // Two cores of two CPUs each.
        let topology = Topology::synthetic(1, 1, 2, 2);
        let all = topology.all();
        let of = |taken, before, count| place(&topology, &all, &taken, &before, count);
        let two = of(CpuSet::EMPTY, CpuSet::EMPTY, 2).unwrap();
        let apart = two.iter().all(|cpu| topology.siblings_of(cpu).is_disjoint(&two));
        assert!(apart && two.len() == 2, "{two}");
        let rest = all.difference(&two);
        assert_eq!(of(two, CpuSet::EMPTY, 2), Some(rest), "then siblings");
        assert_eq!(of(two, CpuSet::EMPTY, 3), None);
        assert_eq!(of(CpuSet::EMPTY, rest, 1).map(|one| one.is_subset(&rest)), Some(true));
        assert!(rest.is_subset(&of(CpuSet::EMPTY, rest, 3).unwrap()));
    }
}
