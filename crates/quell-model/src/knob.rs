//! What can be set, and how long it takes to have an effect.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{CpuCount, CpuId, CpuSet, Nanos, ThreadId, WorkloadId};

/// A scheduling class and its parameters (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedClass {
    /// SCHED_OTHER with a nice value (−20…19) and, from kernel 6.12 on, a slice of its own (0.1–100 ms; None: the
    /// kernel's). A smaller slice is an earlier virtual deadline.
    Fair {
        /// Nice value.
        nice: i8,
        /// Slice.
        slice: Option<Nanos>,
    },
    /// SCHED_BATCH with a nice value.
    Batch {
        /// Nice value.
        nice: i8,
    },
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO with a priority (1–99).
    Fifo {
        /// Priority.
        priority: u8,
    },
    /// SCHED_RR with a priority (1–99).
    RoundRobin {
        /// Priority.
        priority: u8,
    },
    /// SCHED_DEADLINE.
    Deadline {
        /// Run time per period.
        runtime: Nanos,
        /// Relative deadline.
        deadline: Nanos,
        /// Period.
        period: Nanos,
    },
}

impl SchedClass {
    /// SCHED_OTHER as every thread begins: nice 0, the kernel's slice.
    pub const NORMAL: SchedClass = SchedClass::Fair { nice: 0, slice: None };

    /// Does the thread run before every fair thread?
    #[must_use]
    pub fn is_real_time(self) -> bool {
        matches!(self, SchedClass::Fifo { .. } | SchedClass::RoundRobin { .. } | SchedClass::Deadline { .. })
    }
}

impl Default for SchedClass {
    fn default() -> SchedClass {
        SchedClass::NORMAL
    }
}

impl fmt::Display for SchedClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedClass::Fair { nice, slice: None } => write!(f, "SCHED_OTHER nice {nice}"),
            SchedClass::Fair { nice, slice: Some(slice) } => write!(f, "SCHED_OTHER nice {nice} slice {slice}"),
            SchedClass::Batch { nice } => write!(f, "SCHED_BATCH nice {nice}"),
            SchedClass::Idle => f.write_str("SCHED_IDLE"),
            SchedClass::Fifo { priority } => write!(f, "SCHED_FIFO {priority}"),
            SchedClass::RoundRobin { priority } => write!(f, "SCHED_RR {priority}"),
            SchedClass::Deadline { runtime, deadline, period } => {
                write!(f, "SCHED_DEADLINE {runtime} by {deadline} every {period}")
            }
        }
    }
}

/// When a running thread gives way to one that woke up (`/sys/kernel/debug/sched/preempt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptionMode {
    /// Only at points that the kernel chose.
    None,
    /// At more such points.
    Voluntary,
    /// At once.
    Full,
    /// At the next tick, for fair threads.
    Lazy,
}

/// What a knob is set on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// All threads of a workload, those still to be born included.
    Workload(WorkloadId),
    /// One thread.
    Thread(ThreadId),
    /// One CPU.
    Cpu(CpuId),
    /// The whole machine; only where the configuration allows machine-wide knobs.
    Machine,
}

/// A value that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// The CPUs that the target may run on.
    Cpus(CpuSet),
    /// The CPUs are a partition of their own: everything else on the machine is moved away, unmanaged work included.
    Partition(bool),
    /// Share among those that compete, 1–10000, 100 as the default (cgroup v2 `cpu.weight`).
    Weight(u32),
    /// At most this many CPUs' time in every period; None: no limit (cgroup v2 `cpu.max`).
    Quota(Option<CpuCount>),
    /// Runs only when nothing else wants the CPU (cgroup v2 `cpu.idle`; SCHED_IDLE for single threads).
    IdleOnly(bool),
    /// Scheduling class.
    Class(SchedClass),
    /// Stopped until this is taken back (cgroup v2 `cgroup.freeze`).
    Pause(bool),
    /// The LLC ways that the target may fill, one bit a way (resctrl L3 mask).
    CacheWays(u32),
    /// Highest frequency, kHz (cpufreq `scaling_max_freq`).
    MaxFrequencyKhz(u32),
    /// The machine's preemption mode.
    Preemption(PreemptionMode),
}

macro_rules! kinds {
    ($($name:ident = $text:literal, $effect:expr;)+) => {
        /// A knob without its value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[allow(missing_docs, reason = "each is the knob of the same name")]
        pub enum KnobKind { $($name,)+ }

        impl KnobKind {
            /// Every kind.
            pub const ALL: &'static [KnobKind] = &[$(KnobKind::$name,)+];

            /// Its name in field terms.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(KnobKind::$name => $text,)+ }
            }

            /// How long after it was set a change shows in what is measured; before that a policy must not judge it.
            ///
            /// snu2020 Table 2.1: cache ways 3 ms, frequency 2 ms, cycle limit 40–50 ms (50 taken), CPU allocation
            /// 3 ms. What acts at the next scheduling decision is taken as one tick at 250 Hz (our assumption).
            #[must_use]
            pub fn effect_latency(self) -> Nanos {
                match self { $(KnobKind::$name => $effect,)+ }
            }
        }

        impl Knob {
            /// The knob without its value.
            #[must_use]
            pub fn kind(&self) -> KnobKind {
                match self { $(Knob::$name(_) => KnobKind::$name,)+ }
            }
        }
    };
}

kinds! {
    Cpus = "CPU set", Nanos::from_millis(3);
    Partition = "CPU partition", Nanos::from_millis(3);
    Weight = "weight", Nanos::from_millis(4);
    Quota = "cycle quota", Nanos::from_millis(50);
    IdleOnly = "idle-only", Nanos::from_millis(4);
    Class = "scheduling class", Nanos::from_millis(4);
    Pause = "pause", Nanos::from_millis(4);
    CacheWays = "cache ways", Nanos::from_millis(3);
    MaxFrequencyKhz = "frequency", Nanos::from_millis(2);
    Preemption = "preemption mode", Nanos::from_millis(4);
}

/// One knob, one target, one value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnobSetting {
    /// What it is set on.
    pub target: Target,
    /// The value.
    pub knob: Knob,
}

/// Keeps a policy from judging a knob before it had its effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settling {
    until: Nanos,
}

impl Settling {
    /// A knob of this kind was set.
    pub fn set(&mut self, kind: KnobKind, now: Nanos) {
        self.until = self.until.max(now + kind.effect_latency());
    }

    /// When everything that was set has had its effect.
    #[must_use]
    pub fn until(&self) -> Nanos {
        self.until
    }

    /// Has everything that was set had its effect, over the whole of a sample's window?
    #[must_use]
    pub fn is_over_for(&self, sample_at: Nanos, window: Nanos) -> bool {
        sample_at - window >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_that_began_before_the_effect_is_not_judged() {
        let mut settling = Settling::default();
        settling.set(KnobKind::CacheWays, Nanos::from_millis(10));
        let window = Nanos::from_millis(5);
        assert!(!settling.is_over_for(Nanos::from_millis(17), window));
        assert!(settling.is_over_for(Nanos::from_millis(18), window));
    }

    #[test]
    fn every_knob_has_its_kind() {
        assert_eq!(Knob::Weight(3).kind(), KnobKind::Weight);
        assert_eq!(KnobKind::ALL.len(), 10);
    }
}
