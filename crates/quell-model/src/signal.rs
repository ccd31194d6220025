//! What can be measured, and measured values with their time, window and quality.

use serde::{Deserialize, Serialize};

use crate::{Class, Nanos};

/// Bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BytesPerSecond(pub f64);

/// How far a value can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quality {
    /// Not measured: the value means nothing.
    #[default]
    Absent,
    /// Measured once, but too long ago to act on.
    Stale,
    /// Derived from something else.
    Estimated,
    /// Measured.
    Exact,
}

/// A measured value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample<T> {
    /// The value; meaningless where the quality is absent.
    pub value: T,
    /// When it was read.
    pub at: Nanos,
    /// The span that it describes, ending at `at`; zero for a momentary value.
    pub window: Nanos,
    /// How far it can be trusted.
    pub quality: Quality,
}

impl<T: Copy> Sample<T> {
    /// A measured momentary value.
    pub fn exact(value: T, at: Nanos) -> Sample<T> {
        Sample { value, at, window: Nanos::ZERO, quality: Quality::Exact }
    }

    /// A measured value that describes the span before `at`.
    pub fn over(value: T, at: Nanos, window: Nanos) -> Sample<T> {
        Sample { value, at, window, quality: Quality::Exact }
    }

    /// The value if it can be acted on: neither absent nor stale.
    pub fn usable(&self) -> Option<T> {
        (self.quality >= Quality::Estimated).then_some(self.value)
    }
}

macro_rules! signals {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// A kind of measurement. A host fills only the columns of the signals that a policy asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Signal { $($(#[doc = $doc])+ $name,)+ }

        impl Signal {
            /// Every kind.
            pub const ALL: &'static [Signal] = &[$(Signal::$name,)+];

            /// Its name in field terms.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Signal::$name => $text,)+ }
            }
        }
    };
}

signals! {
    /// Per workload: how long the oldest waiting item has waited.
    QueueingDelay = "queueing delay",
    /// Per workload: CPU time used since it attached.
    RunTime = "run time",
    /// Per workload: time its threads were runnable but not running, since it attached.
    RunDelay = "run delay",
    /// Per workload: number of threads.
    ThreadCount = "thread count",
    /// Per workload: the SLO's quantile of latency, as the application or a load generator reports it.
    Latency = "application latency",
    /// Per workload: LLC hits per LLC reference.
    LlcHitRatio = "LLC hit ratio",
    /// Per workload: memory bandwidth used.
    WorkloadBandwidth = "memory bandwidth per workload",
    /// Per workload: instructions retired per second.
    InstructionRate = "instruction rate",
    /// Per CPU: when the request that it works on began.
    RequestStart = "request start",
    /// Per CPU: LLC misses since an arbitrary start; sampled on request.
    LlcMisses = "LLC misses",
    /// Per CPU: which workload runs there.
    Holder = "workload on CPU",
    /// The machine: memory bandwidth in use.
    MemoryBandwidth = "memory bandwidth",
    /// Per thread: state, CPU, run time, run delay and scheduling class.
    Threads = "threads",
    /// Per thread of a latency-critical workload: the same. A host may leave all other threads out.
    CriticalThreads = "latency-critical threads",
    /// Per thread that is wanted: times it lost its CPU although it could have gone on.
    Preemptions = "preemptions",
    /// Per thread that is wanted: who woke it, and how often.
    WakeUps = "wake-ups and by whom",
    /// Per workload: how long the oldest unread data of its sockets has waited; of latency-critical ones.
    UnreadDelay = "age of unread data in sockets",
    /// The machine: how many times its quiet latency memory takes to answer.
    MemorySlowdown = "memory slowdown",
}

/// A set of signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SignalSet(u32);

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

    /// Are the threads of workloads of this class wanted?
    #[must_use]
    pub const fn contains_threads_of(self, class: Class) -> bool {
        self.contains(Signal::Threads)
            || (self.contains(Signal::CriticalThreads) && matches!(class, Class::LatencyCritical))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_measured_is_usable() {
        assert_eq!(Sample::<u32>::default().usable(), None);
        assert_eq!(Sample::exact(3, Nanos(1)).usable(), Some(3));
        assert_eq!(Sample { quality: Quality::Stale, ..Sample::exact(3, Nanos(1)) }.usable(), None);
    }

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
        assert!(Signal::ALL.len() <= 32);
    }
}
