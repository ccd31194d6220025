//! The standing values of a workload or of one thread.

use std::collections::HashMap;

use quell_model::{CpuCount, CpuSet, Knob, KnobKind, SchedClass, ThreadId, WorkloadId};

use crate::LinuxError;

/// What is wanted of a workload or a thread; None: what it had before Quell touched it.
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

/// What policies set on single threads, beside what stands for their workloads.
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

    /// What of a workload's values is set on each thread when the rest is set on its cgroup.
    pub fn beside_cgroup(&self) -> Wanted {
        Wanted { class: self.class, ..Wanted::default() }
    }
}

/// Is the value one that could be set at all? Says what to choose instead.
pub(crate) fn check(knob: &Knob, online: &CpuSet) -> Result<(), LinuxError> {
    let bad = |what: String, mend: &str| Err(LinuxError::unsupported(what, mend));
    match *knob {
        Knob::Cpus(cpus) if cpus.intersection(online).is_empty() => {
            bad(format!("of the CPUs '{cpus}' none is online"), &format!("choose some of {online}"))
        }
        Knob::Weight(weight) if !(1..=10_000).contains(&weight) => {
            bad(format!("a weight of {weight} does not exist"), "choose one from 1 to 10000")
        }
        Knob::Quota(Some(CpuCount(quota))) if quota < 10 => {
            bad(format!("a quota of {} CPUs is too small for the kernel", CpuCount(quota)), "choose at least 0.01")
        }
        Knob::Class(SchedClass::Fifo { priority } | SchedClass::RoundRobin { priority })
            if !(1..=99).contains(&priority) =>
        {
            bad(format!("a real-time priority of {priority} does not exist"), "choose one from 1 to 99")
        }
        Knob::Class(SchedClass::Fair { nice, .. } | SchedClass::Batch { nice }) if !(-20..=19).contains(&nice) => {
            bad(format!("a nice value of {nice} does not exist"), "choose one from -20 to 19")
        }
        Knob::CacheWays(_) => bad("this host does not set cache ways".into(), "leave policies out that need them"),
        Knob::MaxFrequencyKhz(_) => {
            bad("this host does not set frequencies".into(), "leave policies out that need them")
        }
        _ => Ok(()),
    }
}
