//! Which events are counted on each CPU: chosen when the CPU is first there, or comes online again.

use std::cell::OnceCell;

use quell_model::{CpuId, CpuSet};
use quell_trace::COUNTED_EVENTS;

use crate::Roots;
use crate::members::Members;
use crate::perf::{Events, Processor, events_of};

/// The events of a CPU of this make; a test's may be others.
pub(super) type Choice = Box<dyn Fn(&Processor, &Roots, CpuId) -> Events + Send>;

/// The choice, and what it was for each CPU.
pub(super) struct Chosen {
    choose: Choice,
    processor: OnceCell<Processor>,
    /// The CPUs for which there is a choice.
    on: CpuSet,
    /// By CPU.
    events: Vec<Events>,
    /// Those that some of the CPUs count, by bit.
    mask: u32,
}

impl Default for Chosen {
    fn default() -> Chosen {
        Chosen::by(Box::new(events_of))
    }
}

impl Chosen {
    pub fn by(choose: Choice) -> Chosen {
        Chosen { choose, processor: OnceCell::new(), on: CpuSet::EMPTY, events: Vec::new(), mask: 0 }
    }

    /// The CPUs' make. Read once: the file has an entry for each CPU, and they are all of one make.
    pub fn processor(&self, roots: &Roots) -> Processor {
        *self.processor.get_or_init(|| Processor::read(roots))
    }

    /// Chooses, at any time.
    pub fn choose(&self, roots: &Roots, cpu: CpuId) -> Events {
        (self.choose)(&self.processor(roots), roots, cpu)
    }

    /// Chooses for the CPUs that came online.
    pub fn follow(&mut self, members: &Members) {
        if members.online == self.on {
            return;
        }
        let columns = members.topology.columns().max(self.events.len());
        self.events.resize(columns, Events::default());
        for cpu in members.online.difference(&self.on).iter() {
            self.events[cpu.index()] = self.choose(&members.roots, cpu);
        }
        self.on = members.online;
        let bits =
            |events: &Events| (0..COUNTED_EVENTS).filter(|at| events[*at].is_some()).fold(0, |all, at| all | 1 << at);
        self.mask = self.on.iter().fold(0, |all, cpu| all | bits(&self.events[cpu.index()]));
    }

    /// The events of a CPU that was online when they were chosen last.
    pub fn of(&self, cpu: CpuId) -> Events {
        self.events.get(cpu.index()).copied().unwrap_or_default()
    }

    /// Those that some of these CPUs count, by bit.
    pub fn mask(&self) -> u32 {
        self.mask
    }
}
