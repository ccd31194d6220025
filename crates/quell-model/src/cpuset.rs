//! CPU numbers and sets of them, in the kernel's list format (`0-3,8`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ModelError;

/// CPUs that a [`CpuSet`] can hold: numbers below this.
pub const MAX_CPUS: usize = 1024;
const WORDS: usize = MAX_CPUS / 64;

/// A logical CPU's number, as Linux counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(pub u32);

impl CpuId {
    /// The number as an index into per-CPU columns.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of CPUs below [`MAX_CPUS`]; a plain value, copied and combined without allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CpuSet {
    words: [u64; WORDS],
}

impl CpuSet {
    /// The empty set.
    pub const EMPTY: CpuSet = CpuSet { words: [0; WORDS] };

    /// The CPUs `0..count`.
    #[must_use]
    pub fn first(count: usize) -> CpuSet {
        (0..count.min(MAX_CPUS)).map(|cpu| CpuId(cpu as u32)).collect()
    }

    /// The set of one CPU.
    #[must_use]
    pub fn one(cpu: CpuId) -> CpuSet {
        let mut set = CpuSet::EMPTY;
        set.insert(cpu);
        set
    }

    /// Adds a CPU. Numbers of [`MAX_CPUS`] and above are not representable and are left out.
    pub fn insert(&mut self, cpu: CpuId) {
        if let Some(word) = self.words.get_mut(cpu.index() / 64) {
            *word |= 1 << (cpu.index() % 64);
        }
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: CpuId) {
        if let Some(word) = self.words.get_mut(cpu.index() / 64) {
            *word &= !(1 << (cpu.index() % 64));
        }
    }

    /// Is the CPU in the set?
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get(cpu.index() / 64).is_some_and(|word| word >> (cpu.index() % 64) & 1 == 1)
    }

    /// Number of CPUs in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Is no CPU in the set?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The CPUs in either set.
    #[must_use]
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a | b)
    }

    /// The CPUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a & b)
    }

    /// The CPUs in this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a & !b)
    }

    /// Have the sets no CPU in common?
    #[must_use]
    pub fn is_disjoint(&self, other: &CpuSet) -> bool {
        self.intersection(other).is_empty()
    }

    /// Is every CPU of this set in the other?
    #[must_use]
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.difference(other).is_empty()
    }

    /// The CPU with the lowest number.
    #[must_use]
    pub fn lowest(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                Some(CpuId(index as u32 * 64 + bit))
            })
        })
    }

    fn combine(&self, other: &CpuSet, with: impl Fn(u64, u64) -> u64) -> CpuSet {
        let mut set = CpuSet::EMPTY;
        for (index, word) in set.words.iter_mut().enumerate() {
            *word = with(self.words[index], other.words[index]);
        }
        set
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::EMPTY;
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(start) = cpus.next() {
            let mut end = start;
            while let Some(next) = cpus.next_if(|cpu| cpu.0 == end.0 + 1) {
                end = next;
            }
            write!(f, "{separator}{start}")?;
            if end != start {
                write!(f, "-{end}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl FromStr for CpuSet {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<CpuSet, ModelError> {
        let bad = || ModelError::CpuList { text: text.trim().to_owned(), max: MAX_CPUS };
        let number = |part: &str| match part.trim().parse::<u32>() {
            Ok(cpu) if (cpu as usize) < MAX_CPUS => Ok(cpu),
            _ => Err(bad()),
        };
        let mut set = CpuSet::EMPTY;
        for range in text.trim().split(',').filter(|range| !range.trim().is_empty()) {
            let (start, end) = range.split_once('-').unwrap_or((range, range));
            let (start, end) = (number(start)?, number(end)?);
            if start > end {
                return Err(bad());
            }
            (start..=end).for_each(|cpu| set.insert(CpuId(cpu)));
        }
        Ok(set)
    }
}

impl Serialize for CpuSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<CpuSet, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_set() -> impl Strategy<Value = CpuSet> {
        proptest::collection::vec(0..MAX_CPUS as u32, 0..80).prop_map(|cpus| cpus.into_iter().map(CpuId).collect())
    }

    proptest! {
        #[test]
        fn the_kernel_format_round_trips(set in any_set()) {
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }

        #[test]
        fn sets_obey_their_algebra(a in any_set(), b in any_set()) {
            prop_assert_eq!(a.union(&b).len() + a.intersection(&b).len(), a.len() + b.len());
            prop_assert!(a.difference(&b).is_disjoint(&b));
            prop_assert!(a.difference(&b).is_subset(&a));
            prop_assert_eq!(a.iter().count(), a.len());
            prop_assert!(a.iter().all(|cpu| a.contains(cpu)));
        }
    }

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!("0-3,8\n".parse::<CpuSet>().unwrap().len(), 5);
        assert_eq!("\n".parse::<CpuSet>().unwrap(), CpuSet::EMPTY);
        assert_eq!(CpuSet::first(3).to_string(), "0-2");
    }

    #[test]
    fn refuses_what_is_no_list() {
        for text in ["a", "3-1", "0-", "-2", "1024", "0x1", "1 2"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }
}
