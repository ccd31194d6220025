//! Choice of CPUs for a strict reservation.
//!
//! rkube-socc21 §5.2: "the CPU topology is taken into consideration in the CPU selection. rKube aims to separate them
//! from shared CPUs used by other containers. For example, when requests.cpu is larger than the CPU number in a
//! socket, and all CPUs in that socket are not reserved yet, all these CPUs will be selected."
//!
//! The paper leaves the rest open. Ours: whole sockets first; the remainder goes into the smallest unit (last-level
//! cache, then socket) that holds it, the fullest such unit, so that large units stay whole for later; inside it whole
//! cores before single siblings. Among equals the highest CPU numbers, because interrupts tend to arrive at the lowest.
//!
//! Where CPUs differ in speed a reservation is of one speed, the fastest that has as many free; else of the fastest that are free.

use quell_model::{CpuSet, Topology};

/// Chooses `count` of the `free` CPUs; None if there are fewer.
#[must_use]
pub fn choose(topology: &Topology, free: &CpuSet, count: usize) -> Option<CpuSet> {
    if count > free.len() {
        return None;
    }
    let free_of = |speed: &CpuSet| speed.intersection(free);
    if let Some(home) = topology.speeds().iter().map(free_of).find(|free| free.len() >= count) {
        return Some(alike(topology, &home, count));
    }
    let mut chosen = CpuSet::EMPTY;
    for free in topology.speeds().iter().map(free_of) {
        let more = free.len().min(count - chosen.len());
        chosen = chosen.union(&alike(topology, &free, more));
    }
    Some(chosen)
}

/// Chooses `count` of the `free` CPUs, which are at least as many, and all as fast as each other.
fn alike(topology: &Topology, free: &CpuSet, count: usize) -> CpuSet {
    let mut chosen = CpuSet::EMPTY;
    for socket in topology.sockets().iter().rev() {
        if socket.is_subset(free) && socket.len() <= count - chosen.len() {
            chosen = chosen.union(socket);
        }
    }
    let rest = count - chosen.len();
    if rest > 0 {
        let free = free.difference(&chosen);
        let home = home(topology, &free, rest);
        chosen = chosen.union(&within(topology, &home.intersection(&free), rest));
    }
    chosen
}

/// The smallest unit with this many free CPUs, the fullest of its kind; the whole machine if no socket has as many.
fn home(topology: &Topology, free: &CpuSet, count: usize) -> CpuSet {
    let fitting = |units: &[CpuSet]| {
        units
            .iter()
            .rev()
            .map(|unit| (unit.intersection(free).len(), *unit))
            .filter(|(room, _)| *room >= count)
            .min_by_key(|(room, _)| *room)
            .map(|(_, unit)| unit)
    };
    fitting(topology.llcs()).or_else(|| fitting(topology.sockets())).unwrap_or_else(|| topology.all())
}

/// `count` CPUs out of `free`, which has at least as many: whole cores first, then CPUs of cores that are broken
/// already, then of whole ones.
fn within(topology: &Topology, free: &CpuSet, count: usize) -> CpuSet {
    let mut chosen = CpuSet::EMPTY;
    let whole = |core: &CpuSet| core.is_subset(free);
    for core in topology.cores().iter().rev().filter(|core| whole(core)) {
        if core.len() <= count - chosen.len() {
            chosen = chosen.union(core);
        }
    }
    for want_whole in [false, true] {
        for core in topology.cores().iter().rev().filter(|core| whole(core) == want_whole) {
            for cpu in core.intersection(free).difference(&chosen).iter() {
                if chosen.len() < count {
                    chosen.insert(cpu);
                }
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quell_model::CpuId;

    fn pick(topology: &Topology, free: &str, count: usize) -> String {
        choose(topology, &free.parse().unwrap(), count).unwrap().to_string()
    }

    #[test]
    fn a_request_as_large_as_a_socket_gets_a_whole_one() {
        let two_sockets = Topology::synthetic(2, 1, 6, 2);
        assert_eq!(pick(&two_sockets, "0-23", 12), "6-11,18-23");
        assert_eq!(pick(&two_sockets, "0-23", 14), "5-11,17-23", "a socket and one whole core of the other");
        assert_eq!(pick(&two_sockets, "0-5,7-11,12-23", 12), "0-5,12-17", "only an unbroken socket is whole");
    }

    #[test]
    fn a_small_request_stays_in_one_cache_and_takes_whole_cores() {
        let chiplets = Topology::synthetic(1, 2, 4, 2);
        assert_eq!(pick(&chiplets, "0-15", 4), "6-7,14-15");
        assert_eq!(pick(&chiplets, "0-15", 3), "6-7,15", "a core and one sibling");
    }

    #[test]
    fn a_single_cpu_completes_a_broken_core() {
        let machine = Topology::synthetic(1, 1, 4, 2);
        assert_eq!(pick(&machine, "0-2,4-7", 1), "7", "its sibling 3 is taken already");
    }

    #[test]
    fn the_fullest_unit_that_fits_is_taken() {
        let chiplets = Topology::synthetic(1, 3, 4, 1);
        assert_eq!(pick(&chiplets, "0-3,6-7,8-11", 2), "6-7");
    }

    #[test]
    fn a_reservation_is_of_one_speed_where_it_can_be() {
        let little: CpuSet = "4-7".parse().unwrap();
        let machine = Topology::synthetic(1, 1, 8, 1).with_capacity(&little, 446);
        assert_eq!(pick(&machine, "0-7", 2), "2-3", "the fast ones, although the others have higher numbers");
        assert_eq!(pick(&machine, "0,4-7", 2), "6-7", "both alike rather than one of each");
        assert_eq!(pick(&machine, "0-1,4-7", 5), "0-1,5-7", "all of the fast ones, as no speed has as many");
    }

    proptest! {
        #[test]
        fn exactly_as_many_free_cpus_as_asked_for(
            (sockets, llcs, cores, threads) in (1u32..3, 1u32..3, 1u32..5, 1u32..3),
            bits in any::<u64>(),
            count in 0usize..40,
        ) {
            let topology = Topology::synthetic(sockets, llcs, cores, threads);
            let free: CpuSet = topology.all().iter().filter(|cpu| bits >> (cpu.index() % 64) & 1 == 1).collect();
            match choose(&topology, &free, count) {
                Some(chosen) => {
                    prop_assert_eq!(chosen.len(), count);
                    prop_assert!(chosen.is_subset(&free));
                    let whole_socket = topology.sockets().iter().any(|s| s.is_subset(&free) && s.len() <= count);
                    let has_one = topology.sockets().iter().any(|s| s.is_subset(&chosen));
                    prop_assert!(!whole_socket || has_one);
                }
                None => prop_assert!(count > free.len()),
            }
        }

        #[test]
        fn it_breaks_at_most_one_core_when_all_are_whole(count in 1usize..24) {
            let topology = Topology::synthetic(2, 1, 6, 2);
            let chosen = choose(&topology, &topology.all(), count).unwrap();
            let broken = topology.cores().iter()
                .filter(|core| !core.is_disjoint(&chosen) && !core.is_subset(&chosen)).count();
            prop_assert!(broken <= 1);
            prop_assert!(!chosen.contains(CpuId(0)) || count > 22, "CPU 0 comes last");
        }
    }
}
