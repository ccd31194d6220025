//! The collector at work for accounts.

use quell_model::Nanos;
use quell_trace::{Collector, Cost, Event, Losses, Member, Options};

use crate::crew::Crew;
use crate::{Accounting, GapError};

/// Upper bound on the scans for threads, which are repeated until one finds no new thread.
const MOST_LOOKS: usize = 10;

/// The collector, and its events that belong to the next window.
pub(crate) struct Tracer {
    collector: Collector,
    buffer: Vec<Event>,
    events: u64,
    /// The collector's counts at the window's start.
    before: Counted,
}

#[derive(Default)]
struct Counted {
    losses: Losses,
    cost: Option<Cost>,
    preemptions: Vec<u64>,
}

impl Tracer {
    /// Attaches to the kernel, which takes a moment; then scans for threads that were created in that moment.
    pub fn begin(cost: bool, crew: &mut Crew) -> Result<Tracer, GapError> {
        let options = Options { events: true, cost, ..Options::default() };
        let collector = Collector::open(options)?;
        let mut tracer = Tracer { collector, buffer: Vec::new(), events: 0, before: Counted::default() };
        for _ in 0..MOST_LOOKS {
            let newcomers = crew.newcomers();
            if newcomers.is_empty() {
                break;
            }
            // From now on their children are reported, but not those created since they were found.
            newcomers.iter().try_for_each(|&member| tracer.collector.watch(member))?;
            crew.find()?;
        }
        tracer.watch(&crew.newcomers())?;
        Ok(tracer)
    }

    pub fn watch(&mut self, members: &[Member]) -> Result<(), GapError> {
        for &member in members {
            self.collector.watch(member)?;
        }
        Ok(self.collector.look()?)
    }

    /// Takes the events up to `end`; later ones wait.
    pub fn feed(&mut self, accounts: &mut Accounting, end: Nanos) -> Result<(), GapError> {
        self.collector.drain(&mut self.buffer)?;
        let before = self.buffer.partition_point(|event| event.at <= end);
        for event in self.buffer.drain(..before) {
            accounts.apply(&event);
            self.events += 1;
        }
        Ok(())
    }

    /// Starts counting from zero.
    pub fn begin_window(&mut self, slots: usize) -> Result<(), GapError> {
        self.events = 0;
        self.before = Counted::default();
        let preemptions = (0..slots as u16).map(|slot| self.preemptions(slot)).collect::<Result<_, _>>()?;
        self.before = Counted { losses: self.collector.losses(), cost: self.collector.cost(), preemptions };
        Ok(())
    }

    /// Events that were accounted for.
    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn losses(&self) -> Losses {
        let (now, before) = (self.collector.losses(), self.before.losses);
        Losses {
            events: now.events - before.events,
            members: now.members - before.members,
            edges: now.edges - before.edges,
            switches: now.switches - before.switches,
            interrupts: now.interrupts - before.interrupts,
        }
    }

    pub fn cost(&self) -> Option<Cost> {
        let (now, before) = (self.collector.cost()?, self.before.cost.unwrap_or_default());
        Some(Cost { time: now.time - before.time, runs: now.runs - before.runs })
    }

    pub fn preemptions(&self, slot: u16) -> Result<u64, GapError> {
        let living = self.collector.threads()?;
        let living = living.iter().filter(|(member, _)| member.slot == slot).map(|(_, known)| known.totals.preemptions);
        let all = living.sum::<u64>() + self.collector.ended(slot).preemptions;
        // A thread's count belongs to it until it exits, and then to no workload for a moment.
        Ok(all.saturating_sub(self.before.preemptions.get(usize::from(slot)).copied().unwrap_or(0)))
    }

    pub fn name_of_ended(&self, tid: i32) -> Option<String> {
        self.collector.name_of_ended(tid)
    }
}
