//! All services' threads under tracing.

use quell_linux::procfs::ProcFs;
use quell_model::{CpuSet, Nanos};
use quell_trace::{Collector, Event, Losses, Member, Options};

use super::waits::{Lost, Waits};
use super::watch::Cast;
use crate::GapError;

/// The collector at work.
pub(super) struct Traced {
    collector: Collector,
    buffer: Vec<Event>,
    waits: Option<Waits>,
    events: u64,
    before: Losses,
}

impl Traced {
    /// Attaches to the kernel and watches all threads, those too that were created meanwhile.
    pub fn begin(proc: &mut ProcFs, cast: &mut Cast) -> Result<Traced, GapError> {
        let collector = Collector::open(Options { events: true, ..Options::default() })?;
        let before = collector.losses();
        let mut traced = Traced { collector, buffer: Vec::new(), waits: None, events: 0, before };
        // From the first time on the children of all that is watched are, too: the second time finds those created before.
        for _ in 0..2 {
            traced.watch(proc, cast)?;
        }
        Ok(traced)
    }

    fn watch(&mut self, proc: &mut ProcFs, cast: &mut Cast) -> Result<(), GapError> {
        let (mut pids, mut tids) = (Vec::new(), Vec::new());
        proc.pids(&mut pids)?;
        for pid in pids {
            let Some(Some(slot)) = cast.slot_of(proc, pid)? else { continue };
            tids.clear();
            proc.threads(pid, &mut tids)?;
            for &tid in &tids {
                self.collector.watch(Member { tid, slot })?;
            }
        }
        Ok(())
    }

    /// Starts counting.
    pub fn begin_window(&mut self, services: usize, cpus: CpuSet, begin: Nanos) -> Result<(), GapError> {
        self.before = self.collector.losses();
        self.waits = Some(Waits::new(services, cpus, begin));
        Ok(self.collector.look()?)
    }

    /// Takes the events up to `end`; later ones are left out.
    pub fn feed(&mut self, end: Nanos) -> Result<(), GapError> {
        self.collector.drain(&mut self.buffer)?;
        for event in self.buffer.drain(..).filter(|event| event.at <= end) {
            if let Some(waits) = &mut self.waits {
                waits.apply(&event);
                self.events += 1;
            }
        }
        Ok(())
    }

    pub fn close(&mut self, end: Nanos) -> Vec<Lost> {
        self.waits.take().map_or_else(Vec::new, |waits| waits.close(end))
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn losses(&self) -> Losses {
        let (now, before) = (self.collector.losses(), self.before);
        Losses {
            events: now.events - before.events,
            members: now.members - before.members,
            edges: now.edges - before.edges,
            switches: now.switches - before.switches,
            interrupts: now.interrupts - before.interrupts,
        }
    }

    pub fn name_of_ended(&self, tid: i32) -> Option<String> {
        self.collector.name_of_ended(tid)
    }
}
