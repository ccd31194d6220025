//! The sets in which the kernel half looks for a CPU, as `bpf/place/kinds.h` and `bpf/lib/sets.h` keep them: what the loader changes,
//! it sorts as they do.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use quell_model::{CpuId, CpuSet, Topology};

use crate::layout::{CPU_KINDS, MAX_CPUS, MAX_SLOTS, SETS, Set, Shared};

/// The set of all CPUs. The one before it is empty.
const ANYWHERE: usize = 1;

impl Set {
    fn add(&self, at: usize) {
        self.word[at / 64].fetch_or(1 << (at % 64), SeqCst);
        self.words.fetch_or(1 << (at / 64), SeqCst);
    }

    fn leave(&self, at: usize) {
        let (word, bit) = (&self.word[at / 64], 1 << (at % 64));
        if word.load(SeqCst) & bit == 0 || word.fetch_and(!bit, SeqCst) & !bit != 0 {
            return;
        }
        self.words.fetch_and(!(1 << (at / 64)), SeqCst);
        if word.load(SeqCst) != 0 {
            self.words.fetch_or(1 << (at / 64), SeqCst);
        }
    }
}

impl Shared {
    /// The number of the CPU's kind, if it may be handed out.
    #[must_use]
    pub fn kind_of_cpu(&self, cpu: usize) -> Option<usize> {
        let holder = |cpu: usize| self.cpu[cpu].holder.load(SeqCst);
        let is_held = |cpu: usize| cpu < MAX_CPUS && (holder(cpu) as usize) < MAX_SLOTS;
        let state = &self.cpu[cpu];
        if state.in_pool.load(SeqCst) == 0 || state.online.load(SeqCst) == 0 {
            return None;
        }
        let holder_of = self.workload[..MAX_SLOTS].get(holder(cpu) as usize);
        let from = holder_of.map_or(0, |state| 1 + usize::from(state.lc.load(SeqCst) != 0));
        let beside = state.sibling.iter().any(|sibling| is_held(sibling.load(Relaxed) as usize));
        Some(2 * from + usize::from(beside))
    }

    fn sort_cpu(&self, cpu: usize) {
        let kind = self.kind_of_cpu(cpu);
        if let Some(kind) = kind {
            self.of_kind[kind].add(cpu);
        }
        for other in (0..CPU_KINDS).filter(|other| Some(*other) != kind) {
            self.of_kind[other].leave(cpu);
            // It may be of that kind by now, and have been seen still in.
            if self.kind_of_cpu(cpu) == Some(other) {
                self.of_kind[other].add(cpu);
            }
        }
    }

    /// The CPU's holder has changed, or whether it may be handed out.
    pub fn sort_core(&self, cpu: usize) {
        if self.sets.load(Relaxed) == 0 {
            return;
        }
        self.sort_cpu(cpu);
        let siblings = self.cpu[cpu].sibling.iter().map(|sibling| sibling.load(Relaxed) as usize);
        siblings.take_while(|&sibling| sibling < MAX_CPUS).for_each(|sibling| self.sort_cpu(sibling));
    }

    /// All CPUs.
    pub fn sort(&self) {
        (0..self.nr_cpus.load(Relaxed) as usize).for_each(|cpu| self.sort_core(cpu));
    }

    /// Which CPUs are near each other: the sets of the sockets, then of the last-level caches, as long as there are sets.
    pub fn place_cpus(&self, topology: &Topology) {
        self.at_place[ANYWHERE].word.iter().for_each(|word| word.store(u64::MAX, SeqCst));
        self.at_place[ANYWHERE].words.store(u64::MAX, SeqCst);
        for set in &self.at_place[ANYWHERE + 1..] {
            set.words.store(0, SeqCst);
            set.word.iter().for_each(|word| word.store(0, SeqCst));
        }
        let mut sets = ANYWHERE + 1..SETS;
        for (place, units) in [(1, topology.sockets()), (0, topology.llcs())] {
            for unit in units {
                let Some(number) = sets.next() else { return };
                self.place_in(number, place, unit);
            }
        }
    }

    fn place_in(&self, number: usize, place: usize, unit: &CpuSet) {
        for cpu in unit.iter().map(CpuId::index).filter(|&cpu| cpu < MAX_CPUS) {
            self.at_place[number].add(cpu);
            self.cpu[cpu].place[place].store(number as u32, SeqCst);
        }
    }
}
