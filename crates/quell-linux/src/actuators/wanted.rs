//! The standing values of a workload or of one thread.

use std::collections::HashMap;

use quell_model::{
    Bounds, CpuCount, CpuSet, Knob, KnobKind, ModelError, Nanos, NodeSet, SchedClass, ThreadId, WorkloadId,
};

use super::ways::Ways;
use crate::LinuxError;

/// Wanted values of a workload or a thread; None: the original value from before Quell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    pub cpus: Option<CpuSet>,
    pub partition: Option<bool>,
    pub weight: Option<u32>,
    pub quota: Option<Option<CpuCount>>,
    pub idle: Option<bool>,
    pub class: Option<SchedClass>,
    /// A thread's slice; None within: Linux's.
    pub latency: Option<Option<Nanos>>,
    pub pause: Option<bool>,
    pub ways: Option<Ways>,
    pub throttle: Option<u32>,
    pub nodes: Option<NodeSet>,
}

/// Policies' values for single threads, beside the standing values of their workloads.
pub(crate) type Overrides = HashMap<ThreadId, (WorkloadId, Wanted)>;

impl Wanted {
    /// Takes one knob's value over; false if this kind is none of a workload or a thread.
    pub fn set(&mut self, knob: &Knob) -> bool {
        match *knob {
            Knob::Cpus(cpus) => self.cpus = Some(cpus),
            Knob::Partition(on) => self.partition = Some(on),
            Knob::Weight(weight) => self.weight = Some(weight),
            Knob::Quota(quota) => self.quota = Some(quota),
            Knob::IdleOnly(idle) => self.idle = Some(idle),
            Knob::Class(class) => self.class = Some(class),
            Knob::WakeUpLatency(latency) => self.latency = Some(latency),
            Knob::Pause(pause) => self.pause = Some(pause),
            Knob::CacheWays(mask) => self.ways = Some(Ways::everywhere(mask)),
            Knob::WaysOfLlc(ways) => return self.ways.get_or_insert_default().set(ways),
            Knob::Throttle(value) => self.throttle = Some(value),
            Knob::MemoryNodes(nodes) => self.nodes = Some(nodes),
            Knob::MaxFrequencyKhz(_) | Knob::GpuFrequencyKhz(_) | Knob::Preemption(_) | Knob::Warp(_) => return false,
        }
        true
    }

    /// Forgets one kind of knob.
    pub fn clear(&mut self, kind: KnobKind) {
        match kind {
            KnobKind::Cpus => self.cpus = None,
            KnobKind::Partition => self.partition = None,
            KnobKind::Weight => self.weight = None,
            KnobKind::Quota => self.quota = None,
            KnobKind::IdleOnly => self.idle = None,
            KnobKind::Class => self.class = None,
            KnobKind::WakeUpLatency => self.latency = None,
            KnobKind::Pause => self.pause = None,
            KnobKind::CacheWays | KnobKind::WaysOfLlc => self.ways = None,
            KnobKind::Throttle => self.throttle = None,
            KnobKind::MemoryNodes => self.nodes = None,
            KnobKind::MaxFrequencyKhz | KnobKind::GpuFrequencyKhz | KnobKind::Preemption | KnobKind::Warp => {}
        }
    }

    /// Do some of the values need a control group?
    pub fn has_group(&self) -> bool {
        self.ways.is_some() || self.throttle.is_some()
    }

    /// These values, and where there is none, those of `base`.
    pub fn over(&self, base: &Wanted) -> Wanted {
        Wanted {
            cpus: self.cpus.or(base.cpus),
            partition: self.partition.or(base.partition),
            weight: self.weight.or(base.weight),
            quota: self.quota.or(base.quota),
            idle: self.idle.or(base.idle),
            class: self.class.or(base.class),
            latency: self.latency.or(base.latency),
            pause: self.pause.or(base.pause),
            ways: self.ways.or(base.ways),
            throttle: self.throttle.or(base.throttle),
            nodes: self.nodes.or(base.nodes),
        }
    }

    /// The part of a workload's values that is set on each thread when the rest is set on its cgroup.
    pub fn beside_cgroup(&self) -> Wanted {
        Wanted { class: self.class, ..Wanted::default() }
    }
}

/// Is the value valid at all? Names a valid choice. (Ways, throttles and frequencies are checked where the machine's ranges
/// are read.)
pub(crate) fn check(knob: &Knob, online: &CpuSet) -> Result<(), LinuxError> {
    knob.check(&Bounds::of_cpus(*online)).map_err(|error| match error {
        ModelError::Knob { what, fix } => LinuxError::unsupported(what, fix),
        error => error.into(),
    })
}
