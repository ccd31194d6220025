//! Sets of slots, as the loader reads them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use quell_model::WorkloadId;

/// One more than there are slots of workloads.
pub(crate) const SLOTS: usize = 1024;
const WORDS: usize = SLOTS / 64;

/// Slots, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotSet([u64; WORDS]);

impl SlotSet {
    pub(crate) fn insert(&mut self, id: WorkloadId) {
        if let Some(word) = self.0.get_mut(id.index() / 64) {
            *word |= 1 << (id.index() % 64);
        }
    }

    pub(crate) fn remove(&mut self, id: WorkloadId) {
        if let Some(word) = self.0.get_mut(id.index() / 64) {
            *word &= !(1 << (id.index() % 64));
        }
    }

    pub(crate) fn contains(&self, id: WorkloadId) -> bool {
        self.0.get(id.index() / 64).is_some_and(|word| word >> (id.index() % 64) & 1 == 1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// From the lowest on.
    pub(crate) fn iter(self) -> impl Iterator<Item = WorkloadId> {
        self.0.into_iter().enumerate().flat_map(|(at, word)| {
            let rest = std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
            let bits = rest.take_while(|word| *word != 0).map(|word| word.trailing_zeros());
            bits.map(move |bit| WorkloadId(at as u32 * 64 + bit))
        })
    }

    /// All of another one, as the scheduler writes it, too.
    pub(crate) fn unite(&mut self, words: &[AtomicU64]) {
        for (ours, theirs) in self.0.iter_mut().zip(words) {
            *ours |= theirs.load(SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in_and_not_taken_out() {
        let mut set = SlotSet::default();
        assert!(set.is_empty());
        for slot in [1022, 0, 63, 64, 700, 5] {
            set.insert(WorkloadId(slot));
        }
        set.remove(WorkloadId(700));
        set.remove(WorkloadId(701));
        assert_eq!(set.iter().map(|id| id.0).collect::<Vec<_>>(), [0, 5, 63, 64, 1022]);
        assert!(set.contains(WorkloadId(64)) && !set.contains(WorkloadId(700)) && !set.contains(WorkloadId(u32::MAX)));
        set.insert(WorkloadId(u32::MAX));
        assert_eq!(set.iter().count(), 5);
    }

    #[test]
    fn what_the_scheduler_wrote_is_read() {
        let mut set = SlotSet::default();
        set.unite(&[0, 0, 0b101].map(AtomicU64::new));
        assert_eq!(set.iter().map(|id| id.0).collect::<Vec<_>>(), [128, 130]);
    }
}
