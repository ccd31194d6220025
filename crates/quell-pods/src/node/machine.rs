//! The CPUs of the node, and which of them a reservation gets.

use quell_model::{CpuSet, Topology};
use quell_policy::rkube::choose;

/// The node's CPUs. A reservation counts in CPUs, or in cores where it takes whole ones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Machine {
    pub(super) topology: Topology,
    pub(super) online: CpuSet,
    /// Never given away.
    pub(super) reserved: CpuSet,
    pub(super) whole_cores: bool,
}

impl Machine {
    /// What can be given away at all.
    pub(super) fn usable(&self) -> CpuSet {
        self.online.intersection(&self.topology.all()).difference(&self.reserved)
    }

    /// CPUs for `count`, none of those `taken`, as many as possible of those to `keep`. One that can be given away is
    /// always left to be shared.
    pub(super) fn pick(&self, taken: &CpuSet, keep: &CpuSet, count: usize) -> Option<CpuSet> {
        let free = self.usable().difference(taken);
        let chosen = if self.whole_cores {
            let cores = self.cores(&free);
            let firsts = firsts(&cores, |_| true);
            let kept = firsts_to(&cores, keep);
            let chosen = self.keeping(&firsts, &kept, count)?;
            let with_siblings = cores.iter().filter(|core| !core.is_disjoint(&chosen));
            with_siblings.fold(CpuSet::EMPTY, |all, core| all.union(core))
        } else {
            self.keeping(&free, keep, count)?
        };
        (chosen != free).then_some(chosen)
    }

    /// How much `pick` finds at most.
    pub(super) fn room(&self, taken: &CpuSet) -> usize {
        let free = self.usable().difference(taken);
        if !self.whole_cores {
            return free.len().saturating_sub(1);
        }
        let cores = self.cores(&free);
        let all = cores.iter().fold(CpuSet::EMPTY, |all, core| all.union(core));
        if all == free { cores.len().saturating_sub(1) } else { cores.len() }
    }

    /// How much there is in all.
    pub(super) fn size(&self) -> usize {
        if self.whole_cores { self.cores(&self.online).len() } else { self.online.len() }
    }

    fn keeping(&self, free: &CpuSet, keep: &CpuSet, count: usize) -> Option<CpuSet> {
        let kept = keep.intersection(free);
        match count.checked_sub(kept.len()) {
            Some(more) => Some(kept.union(&choose(&self.topology, &free.difference(&kept), more)?)),
            None => choose(&self.topology, &kept, count),
        }
    }

    /// The cores that are whole among these CPUs, without what is offline.
    fn cores(&self, free: &CpuSet) -> Vec<CpuSet> {
        let online = self.topology.cores().iter().map(|core| core.intersection(&self.online));
        online.filter(|core| !core.is_empty() && core.is_subset(free)).collect()
    }
}

/// The first CPU of each core that is wanted: it stands for the core.
fn firsts(cores: &[CpuSet], wanted: impl Fn(&CpuSet) -> bool) -> CpuSet {
    cores.iter().filter(|core| wanted(core)).filter_map(CpuSet::lowest).collect()
}

fn firsts_to(cores: &[CpuSet], keep: &CpuSet) -> CpuSet {
    firsts(cores, |core| !core.is_disjoint(keep))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn machine(cores: u32, threads: u32, reserved: &str, whole_cores: bool) -> Machine {
        let topology = Topology::synthetic(1, 1, cores, threads);
        Machine { online: topology.all(), topology, reserved: cpus(reserved), whole_cores }
    }

    fn pick(machine: &Machine, taken: &str, keep: &str, count: usize) -> Option<String> {
        machine.pick(&cpus(taken), &cpus(keep), count).map(|cpus| cpus.to_string())
    }

    #[test]
    fn one_stays_shared_and_the_reserved_ones_too() {
        let four = machine(4, 1, "0", false);
        assert_eq!(four.room(&CpuSet::EMPTY), 2);
        assert_eq!(pick(&four, "", "", 2).as_deref(), Some("2-3"));
        assert_eq!(pick(&four, "", "", 3), None);
        assert_eq!((four.room(&cpus("2-3")), pick(&four, "2-3", "", 1)), (0, None));
        let all_reserved = machine(2, 1, "0-1", false);
        assert_eq!((all_reserved.room(&CpuSet::EMPTY), pick(&all_reserved, "", "", 1)), (0, None));
    }

    #[test]
    fn growing_keeps_and_shrinking_keeps_a_part() {
        let eight = machine(8, 1, "", false);
        assert_eq!(pick(&eight, "", "2-3", 3).as_deref(), Some("2-3,7"));
        assert_eq!(pick(&eight, "", "2-4", 1).as_deref(), Some("4"));
        assert_eq!(pick(&eight, "7", "6-7", 2).as_deref(), Some("5-6"), "what another one has is not kept");
    }

    #[test]
    fn whole_cores_come_with_their_siblings() {
        let eight = machine(4, 2, "0", true);
        assert_eq!((eight.size(), eight.room(&CpuSet::EMPTY)), (4, 3));
        assert_eq!(pick(&eight, "", "", 1).as_deref(), Some("3,7"));
        assert_eq!(pick(&eight, "", "", 3).as_deref(), Some("1-3,5-7"), "the sibling of 0 is shared");
        assert_eq!(pick(&eight, "", "1,5", 2).as_deref(), Some("1,3,5,7"));
        assert_eq!(pick(&eight, "2", "", 3), None, "a broken core is none");
        let two = machine(2, 2, "", true);
        assert_eq!((two.room(&CpuSet::EMPTY), pick(&two, "", "", 2)), (1, None));
    }

    #[test]
    fn what_is_offline_is_not_given() {
        let mut four = machine(4, 1, "", false);
        four.online = cpus("0-1,3");
        assert_eq!(pick(&four, "", "2", 2).as_deref(), Some("1,3"));
    }
}
