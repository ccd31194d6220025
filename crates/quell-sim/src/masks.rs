//! Which CPUs are online, idle, crowded, about to pick.

use quell_model::{CpuId, CpuSet};

/// Sets of CPUs that the kernel asks for again and again, kept up to date with what is runnable on each.
#[derive(Clone, Debug)]
pub(crate) struct Masks {
    pub online: CpuSet,
    /// CPUs where nothing is runnable.
    pub idle: CpuSet,
    /// CPUs on all of whose core nothing is runnable.
    pub idle_cores: CpuSet,
    /// CPUs where only SCHED_IDLE threads are runnable.
    pub idle_class: CpuSet,
    /// CPUs where some thread waits.
    pub crowded: CpuSet,
    /// CPUs where some real-time or deadline thread waits.
    pub urgent: CpuSet,
    /// CPUs that pick at the end of this event.
    pub pending: Vec<usize>,
}

/// What is runnable on a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runnable {
    /// How many threads, the running one included.
    pub count: usize,
    /// Does some real-time or deadline thread wait?
    pub urgent: bool,
    /// Are there threads, and all of them SCHED_IDLE?
    pub idle_class: bool,
}

impl Masks {
    /// All these CPUs are online and idle.
    pub fn new(all: CpuSet) -> Masks {
        Masks {
            online: all,
            idle: all,
            idle_cores: all,
            idle_class: CpuSet::EMPTY,
            crowded: CpuSet::EMPTY,
            urgent: CpuSet::EMPTY,
            pending: Vec::new(),
        }
    }

    /// This is runnable on a CPU from now on; its core has these CPUs.
    #[inline(always)]
    pub fn note(&mut self, cpu: CpuId, runnable: Runnable, core: &CpuSet) {
        let mark = |set: &mut CpuSet, is_in: bool| if is_in { set.insert(cpu) } else { set.remove(cpu) };
        mark(&mut self.crowded, runnable.count > 1);
        mark(&mut self.urgent, runnable.urgent);
        mark(&mut self.idle_class, runnable.idle_class);
        if self.idle.contains(cpu) != (runnable.count == 0) {
            mark(&mut self.idle, runnable.count == 0);
            let whole = core.is_subset(&self.idle);
            for sibling in core.iter() {
                if whole { self.idle_cores.insert(sibling) } else { self.idle_cores.remove(sibling) }
            }
        }
    }
}
