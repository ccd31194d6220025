//! The standing values of a workload or of one thread.

use std::collections::HashMap;

use quell_model::{Bounds, CpuCount, CpuSet, Knob, KnobKind, ModelError, SchedClass, ThreadId, WorkloadId};

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
    pub pause: Option<bool>,
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
            Knob::Pause(pause) => self.pause = Some(pause),
            Knob::CacheWays(_) | Knob::MaxFrequencyKhz(_) | Knob::Preemption(_) => return false,
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
            KnobKind::Pause => self.pause = None,
            KnobKind::CacheWays | KnobKind::MaxFrequencyKhz | KnobKind::Preemption => {}
        }
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
            pause: self.pause.or(base.pause),
        }
    }

    /// The part of a workload's values that is set on each thread when the rest is set on its cgroup.
    pub fn beside_cgroup(&self) -> Wanted {
        Wanted { class: self.class, ..Wanted::default() }
    }
}

/// Is the value valid at all? Names a valid choice.
pub(crate) fn check(knob: &Knob, online: &CpuSet) -> Result<(), LinuxError> {
    let lacks = |what: &str| Err(LinuxError::unsupported(what, "leave policies out that need them"));
    match knob {
        Knob::CacheWays(_) => lacks("this host does not set cache ways"),
        Knob::MaxFrequencyKhz(_) => lacks("this host does not set frequencies"),
        knob => knob.check(&Bounds::of_cpus(*online)).map_err(|error| match error {
            ModelError::Knob { what, mend } => LinuxError::unsupported(what, mend),
            error => error.into(),
        }),
    }
}
