//! Settings, and the time until they take effect.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{CpuCount, CpuId, CpuSet, Nanos, SchedClass, ThreadId, WorkloadId};

/// When a wake-up preempts the running thread (`/sys/kernel/debug/sched/preempt`).
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

/// Ways of one last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LlcWays {
    /// The cache: its number in [`crate::Cpu::llc`].
    pub llc: u32,
    /// The ways, one bit a way.
    pub mask: u32,
}

/// Virtual time that a thread may borrow from its own future (BVT: Duda and Cheriton, SOSP 1999, §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warp {
    /// Its effective virtual time is earlier by this much (the paper's W).
    pub by: Nanos,
    /// It may run warped for this long at once (L); zero: without limit.
    pub limit: Nanos,
    /// After that it is not warped for this long (U).
    pub rest: Nanos,
}

/// Memory nodes, a bit each, up to number 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeSet(pub u64);

impl NodeSet {
    /// One node.
    #[must_use]
    pub fn one(node: u32) -> NodeSet {
        NodeSet(1 << node.min(63))
    }

    /// Is the node in it?
    #[must_use]
    pub fn contains(self, node: u32) -> bool {
        node < 64 && self.0 >> node & 1 == 1
    }

    /// The nodes in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..64).filter(move |&node| self.contains(node))
    }
}

impl fmt::Display for NodeSet {
    /// As the kernel writes lists: `0,2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: crate::CpuSet = self.iter().map(CpuId).collect();
        write!(f, "{nodes}")
    }
}

/// Target of a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// All threads of a workload, future ones included.
    Workload(WorkloadId),
    /// One thread.
    Thread(ThreadId),
    /// One CPU.
    Cpu(CpuId),
    /// The whole machine; only where the configuration allows machine-wide knobs.
    Machine,
}

/// Kind of target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// A workload.
    Workload,
    /// A thread.
    Thread,
    /// A CPU.
    Cpu,
    /// The machine.
    Machine,
}

impl TargetKind {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TargetKind::Workload => "workload",
            TargetKind::Thread => "thread",
            TargetKind::Cpu => "CPU",
            TargetKind::Machine => "machine",
        }
    }
}

impl Target {
    /// Kind of this target.
    #[must_use]
    pub const fn kind(self) -> TargetKind {
        match self {
            Target::Workload(_) => TargetKind::Workload,
            Target::Thread(_) => TargetKind::Thread,
            Target::Cpu(_) => TargetKind::Cpu,
            Target::Machine => TargetKind::Machine,
        }
    }
}

/// One line of the table of knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnobInfo {
    /// The knob.
    pub kind: KnobKind,
    /// Its name in field terms.
    pub name: &'static str,
    /// Its values, with unit and range.
    pub values: &'static str,
    /// The targets on which it can be set.
    pub on: &'static [TargetKind],
    /// Time from a change of the knob until the effect shows in measurements.
    pub effect_latency: Nanos,
    /// Its effect, in one sentence.
    pub help: &'static str,
}

macro_rules! knobs {
    ($($(#[doc = $doc:literal])+ $name:ident($value:ty) = $text:literal, $values:literal, [$($on:ident),+], $effect:expr;)+) => {
        /// A value that can be set.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Knob { $($(#[doc = $doc])+ $name($value),)+ }

        /// A knob without its value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[allow(missing_docs, reason = "each is the knob of the same name")]
        pub enum KnobKind { $($name,)+ }

        impl KnobKind {
            /// Every kind.
            pub const ALL: &'static [KnobKind] = &[$(KnobKind::$name,)+];

            /// The table, in the order of [`KnobKind::ALL`].
            pub const TABLE: &'static [KnobInfo] = &[$(KnobInfo {
                kind: KnobKind::$name,
                name: $text,
                values: $values,
                on: &[$(TargetKind::$on),+],
                effect_latency: $effect,
                help: concat!($($doc),+).trim_ascii(),
            },)+];
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

// The table of knobs: help, `Knob(value) = "name", "values", [targets], settling time`. Bounds are checked by `Knob::check`.
//
// Settling times: snu2020 Table 2.1: cache ways 3 ms, frequency 2 ms, cycle limit 40–50 ms (50 taken), CPU allocation 3 ms,
// thread migration 90 ms, taken for memory nodes. The memory throttle is set by the same registers as ways.
// A GPU's frequency is taken as a CPU's.
// A knob that acts at the next scheduling decision is taken as one tick at 250 Hz (our assumption).
knobs! {
    /// The CPUs that the target may run on.
    Cpus(CpuSet) = "CPU set", "CPUs that are online", [Workload, Thread], Nanos::from_millis(3);
    /// The CPUs are a partition of their own: everything else on the machine is moved away, unmanaged work included.
    Partition(bool) = "CPU partition", "on or off", [Workload], Nanos::from_millis(3);
    /// Share among those that compete (cgroup v2 `cpu.weight`).
    Weight(u32) = "weight", "1–10000, 100 as the default", [Workload, Thread], Nanos::from_millis(4);
    /// At most this many CPUs' time in every period; None: no limit (cgroup v2 `cpu.max`).
    Quota(Option<CpuCount>) = "cycle quota", "CPUs, 0.01 and more, or none", [Workload], Nanos::from_millis(50);
    /// Runs only when nothing else wants the CPU (cgroup v2 `cpu.idle`; SCHED_IDLE for single threads).
    IdleOnly(bool) = "idle-only", "on or off", [Workload, Thread], Nanos::from_millis(4);
    /// How far in virtual time the running thread must be ahead for a woken thread to take its CPU; None: Linux's. On EEVDF
    /// the thread's slice.
    WakeUpLatency(Option<Nanos>) = "wake-up latency", "0.1–100 ms, or Linux's", [Thread], Nanos::from_millis(4);
    /// Borrowed virtual time, under BVT alone; None: no warp.
    Warp(Option<Warp>) = "warp", "a time, and its limits, or none", [Workload, Thread], Nanos::from_millis(4);
    /// Scheduling class.
    Class(SchedClass) = "scheduling class", "a class of sched(7) with nice value or priority", [Workload, Thread],
        Nanos::from_millis(4);
    /// Stopped until this is taken back (cgroup v2 `cgroup.freeze`).
    Pause(bool) = "pause", "on or off", [Workload, Thread], Nanos::from_millis(4);
    /// The LLC ways that the target may fill, one bit a way (resctrl L3 mask).
    CacheWays(u32) = "cache ways", "one run of bits among the cache's ways", [Workload], Nanos::from_millis(3);
    /// The same in one LLC alone; the others stay as they are.
    WaysOfLlc(LlcWays) = "cache ways of one LLC", "an LLC's number, and one run of bits among its ways", [Workload],
        Nanos::from_millis(3);
    /// Memory bandwidth that the target's CPUs can draw at most (resctrl MB): in the unit and range of the view's controls.
    Throttle(u32) = "memory throttle", "%, MB/s or eighths of GB/s, as the machine has it", [Workload], Nanos::from_millis(3);
    /// The memory nodes that the target's memory is on; memory elsewhere is moved (cgroup v2 `cpuset.mems`).
    MemoryNodes(NodeSet) = "memory nodes", "nodes that have memory", [Workload], Nanos::from_millis(90);
    /// Highest frequency (cpufreq `scaling_max_freq`).
    MaxFrequencyKhz(u32) = "frequency", "kHz, between the CPU's lowest and highest", [Cpu], Nanos::from_millis(2);
    /// Highest frequency of the GPU that shares the CPUs' memory (devfreq `max_freq`).
    GpuFrequencyKhz(u32) = "GPU frequency", "kHz, between the GPU's lowest and highest", [Machine], Nanos::from_millis(2);
    /// The machine's preemption mode.
    Preemption(PreemptionMode) = "preemption mode", "none, voluntary, full or lazy", [Machine], Nanos::from_millis(4);
}

impl KnobKind {
    /// Its line of the table.
    #[must_use]
    pub const fn info(self) -> &'static KnobInfo {
        &KnobKind::TABLE[self as usize]
    }

    /// Its name in field terms.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// Time from a change of the knob until the effect shows in measurements; before that a policy must not judge it.
    #[must_use]
    pub const fn effect_latency(self) -> Nanos {
        self.info().effect_latency
    }
}

/// One knob, one target, one value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnobSetting {
    /// The target.
    pub target: Target,
    /// The value.
    pub knob: Knob,
}

/// Keeps a policy from judging a knob before it has taken effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settling {
    until: Nanos,
}

impl Settling {
    /// A knob of this kind was set.
    pub fn set(&mut self, kind: KnobKind, now: Nanos) {
        self.until = self.until.max(now + kind.effect_latency());
    }

    /// Time at which all settings have taken effect.
    #[must_use]
    pub fn until(&self) -> Nanos {
        self.until
    }

    /// Have all settings been in effect over the whole of a sample's window?
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
    fn every_knob_has_its_kind_and_its_line() {
        assert_eq!(Knob::Weight(3).kind(), KnobKind::Weight);
        for (line, &kind) in KnobKind::TABLE.iter().zip(KnobKind::ALL) {
            assert_eq!((line.kind, kind.info()), (kind, line));
        }
    }
}
