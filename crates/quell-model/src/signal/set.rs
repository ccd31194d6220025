//! Sets of signals.

use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Signal;
use crate::Class;

/// A set of signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalSet(u64);

impl SignalSet {
    /// The set of these signals.
    #[must_use]
    pub const fn of(signals: &[Signal]) -> SignalSet {
        let (mut bits, mut at) = (0, 0);
        while at < signals.len() {
            bits |= 1 << signals[at] as u32;
            at += 1;
        }
        SignalSet(bits)
    }

    /// Is the signal in the set?
    #[must_use]
    pub const fn contains(self, signal: Signal) -> bool {
        self.0 >> signal as u32 & 1 == 1
    }

    /// Does the set include the threads of workloads of this class?
    #[must_use]
    pub const fn contains_threads_of(self, class: Class) -> bool {
        self.contains(Signal::Threads)
            || (self.contains(Signal::CriticalThreads) && matches!(class, Class::LatencyCritical))
    }

    /// The signals of this set, in the table's order.
    pub fn iter(self) -> impl Iterator<Item = Signal> {
        Signal::ALL.iter().copied().filter(move |&signal| self.contains(signal))
    }

    /// The signals of this set that are not in the other.
    #[must_use]
    pub const fn difference(self, other: SignalSet) -> SignalSet {
        SignalSet(self.0 & !other.0)
    }

    /// The signals of both sets.
    #[must_use]
    pub const fn union(self, other: SignalSet) -> SignalSet {
        SignalSet(self.0 | other.0)
    }
}

/// As a list of names.
impl Serialize for SignalSet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.0.count_ones() as usize))?;
        self.iter().try_for_each(|signal| list.serialize_element(&signal))?;
        list.end()
    }
}

/// A list of names, or the bits of version 1 of records.
impl<'de> Deserialize<'de> for SignalSet {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SignalSet, D::Error> {
        struct ListOrBits;

        impl<'de> Visitor<'de> for ListOrBits {
            type Value = SignalSet;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names of signals")
            }

            fn visit_u64<E: de::Error>(self, bits: u64) -> Result<SignalSet, E> {
                let of = VERSION_1.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
                Ok(of.fold(SignalSet::default(), |set, (_, &signal)| set.union(SignalSet::of(&[signal]))))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<SignalSet, A::Error> {
                let mut set = SignalSet::default();
                while let Some(signal) = names.next_element()? {
                    set = set.union(SignalSet::of(&[signal]));
                }
                Ok(set)
            }
        }

        from.deserialize_any(ListOrBits)
    }
}

/// The signals by the bits of version 1.
const VERSION_1: [Signal; 18] = [
    Signal::QueueingDelay,
    Signal::RunTime,
    Signal::RunDelay,
    Signal::ThreadCount,
    Signal::Latency,
    Signal::LlcHitRatio,
    Signal::WorkloadBandwidth,
    Signal::InstructionRate,
    Signal::RequestStart,
    Signal::LlcMisses,
    Signal::Holder,
    Signal::MemoryBandwidth,
    Signal::Threads,
    Signal::CriticalThreads,
    Signal::Preemptions,
    Signal::WakeUps,
    Signal::UnreadDelay,
    Signal::MemorySlowdown,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_they_were_given() {
        let set = SignalSet::of(&[Signal::QueueingDelay, Signal::Threads]);
        assert!(set.contains(Signal::Threads) && !set.contains(Signal::Latency));
        let rest = set.difference(SignalSet::of(&[Signal::Threads, Signal::Latency]));
        assert_eq!(rest, SignalSet::of(&[Signal::QueueingDelay]));
        assert!(set.contains_threads_of(Class::BestEffort) && set.contains_threads_of(Class::LatencyCritical));
        let critical = SignalSet::of(&[Signal::CriticalThreads]);
        assert!(
            !critical.contains_threads_of(Class::BestEffort) && critical.contains_threads_of(Class::LatencyCritical)
        );
        assert!(Signal::ALL.len() <= 64);
    }
}
