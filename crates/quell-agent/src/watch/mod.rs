//! Watching the loop without delaying it: a snapshot at intervals, and every decision.
//!
//! The loop's thread writes into one of three buffers that no reader accesses and swaps it with one atomic operation
//! (`triple_buffer`: wait-free on both sides, no allocation; a lock-free cell of `Arc`s would allocate for each
//! snapshot, a lock could be held by a reader that was preempted). Decisions go through a bounded queue; if its reader
//! is too slow they are dropped and counted, and the loop goes on.

mod decision;
mod glance;
mod roster;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use quell_model::{Event, Nanos, Signal, SignalSet, View};

use crate::stack::{Layer, Witness};

pub use decision::{Decision, Seen, Tried, What};
pub use glance::{Counts, Exhausted, Glance, LayerGlance, Trials};
pub use roster::{Differing, Entry, LEFT_SO, Overridden, Roster, Setting, Standing};

/// Signals for people, besides those that the policies need; see [`quell_model::Stack::also_measure`]. Queueing delays
/// are not among them: where no policy needs them, they would cost a program at every wake-up.
pub const SIGNALS: SignalSet = SignalSet::of(&[
    Signal::RunTime,
    Signal::RunDelay,
    Signal::ThreadCount,
    Signal::Latency,
    Signal::Holder,
    Signal::WaitedForOthers,
    Signal::AttributionCost,
])
.union(SignalSet::of(&Signal::DECISIONS));

/// A snapshot is published at most this often, of turns that measured the signals for people.
const PUBLISH_EVERY: Nanos = Nanos::from_millis(100);

/// Capacity of the queue of decisions. The reader empties it ten times a second; a policy that grants CPUs every 10 µs
/// fills it in 40 ms at worst, and lost decisions are counted.
const QUEUE: usize = 4096;

/// The end on the loop's thread.
pub struct Watch {
    glances: triple_buffer::Input<Glance>,
    rosters: triple_buffer::Input<Roster>,
    decisions: SyncSender<Decision>,
    lost: Arc<AtomicU64>,
    counts: Vec<Counts>,
    exhausted: Vec<Exhausted>,
    /// Number of the host's answers that were passed on with the decisions of each layer's last step.
    answered: Vec<usize>,
    turns: u64,
    published: Option<Nanos>,
}

/// The reader's end.
pub struct Watched {
    glances: triple_buffer::Output<Glance>,
    rosters: triple_buffer::Output<Roster>,
    decisions: Receiver<Decision>,
    lost: Arc<AtomicU64>,
}

/// Both ends, for a loop that begins with this view and these layers.
#[must_use]
pub fn watch(view: &View, layers: &[Layer]) -> (Watch, Watched) {
    let (counts, answered) = (vec![Counts::default(); layers.len()], vec![0; layers.len()]);
    let (input, glances) = triple_buffer::triple_buffer(&Glance::new(view, layers));
    let (published, rosters) = triple_buffer::triple_buffer(&Roster::new());
    let (sender, decisions) = sync_channel(QUEUE);
    let lost = Arc::new(AtomicU64::new(0));
    let watch = Watch {
        glances: input,
        rosters: published,
        decisions: sender,
        lost: Arc::clone(&lost),
        counts,
        exhausted: Vec::new(),
        answered,
        turns: 0,
        published: None,
    };
    (watch, Watched { glances, rosters, decisions, lost })
}

impl Witness for Watch {
    fn turned(&mut self, view: &View, layers: &[Layer]) {
        self.turns += 1;
        let mut population_changed = false;
        // Every layer gets all events.
        if let Some(layer) = layers.iter().find(|layer| layer.stepped()) {
            layer.events.iter().for_each(|event| Exhausted::note(&mut self.exhausted, event));
        }
        let known = self.counts.iter_mut().zip(&mut self.answered);
        for (layer, (counts, answered)) in layers.iter().zip(known).filter(|(layer, _)| layer.stepped()) {
            counts.add(layer);
            population_changed |=
                layer.events.iter().any(|event| matches!(event, Event::Attached(_) | Event::Detached(_)));
            decision::each(view, layer, *answered, |decision| {
                if self.decisions.try_send(decision).is_err() {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
            });
            *answered = layer.outcomes.len();
        }
        let measured = view.workloads.run_time.len() == view.workloads.spec.len();
        if measured && (population_changed || self.published.is_none_or(|last| view.now >= last + PUBLISH_EVERY)) {
            self.published = Some(view.now);
            self.glances.input_buffer_mut().take(self.turns, view, layers, &self.counts, &self.exhausted);
            self.glances.publish();
        }
    }
}

impl Watch {
    /// The stack got another layer, its last.
    pub fn layer_came(&mut self) {
        self.counts.push(Counts::default());
        self.answered.push(0);
    }

    /// This layer was taken out of the stack.
    pub fn layer_went(&mut self, at: usize) {
        self.counts.remove(at);
        self.answered.remove(at);
    }

    /// Hands over where the workloads of the configuration stand. To be called when that changes.
    pub fn publish(&mut self, roster: Roster) {
        self.rosters.write(roster);
    }
}

impl Watched {
    /// States of the configured workloads.
    pub fn roster(&mut self) -> &Roster {
        self.rosters.read()
    }

    /// The newest snapshot.
    pub fn glance(&mut self) -> &Glance {
        self.glances.read()
    }

    /// The decisions since the last call, oldest first; no more than the queue holds.
    pub fn decisions(&mut self) -> impl Iterator<Item = Decision> + '_ {
        self.decisions.try_iter().take(QUEUE)
    }

    /// Number of decisions dropped because they were not read in time.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Stack;
    use quell_model::{CpuCount, CpuId, CpuSet, WorkloadId};
    use quell_policy::AnyPolicy;
    use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

    fn simulated() -> (Stack, SimHost) {
        let workloads = [WorkloadSpec::lc("db", CpuCount::whole(1)).using(1, 0.5), WorkloadSpec::be("batch").busy(2)];
        let topology = quell_model::Topology::synthetic(1, 1, 4, 1);
        let host = SimHost::new(topology, KernelConfig::default(), &workloads, 1, false).unwrap();
        let layers = vec![Layer::new(AnyPolicy::named("guard").unwrap(), None)];
        let mut stack = Stack::new(layers, host.view(), CpuSet::first(4)).unwrap();
        stack.also_measure(SIGNALS, quell_linux::cpu_time);
        (stack, host)
    }

    #[test]
    fn the_reader_sees_the_newest_turn_and_every_decision() {
        let (mut stack, mut host) = simulated();
        let (mut watch, mut watched) = watch(stack.view(), stack.layers());
        assert_eq!(watched.glance().turn, 0, "nothing has happened yet");
        stack.turn(&mut host).unwrap();
        watch.turned(stack.view(), stack.layers());
        let glance = watched.glance();
        assert_eq!((glance.turn, glance.view.workloads.spec.len()), (1, 2));
        assert_eq!(glance.layers[0].counts.knobs, 2);
        let decisions: Vec<Decision> = watched.decisions().collect();
        assert_eq!(decisions.len(), 2, "{decisions:?}");
        assert_eq!(decisions[0].about.as_ref().unwrap().name, "db");
        assert_eq!(watched.decisions().count(), 0);
    }

    #[test]
    fn used_up_budgets_are_counted_by_workload_with_the_longest_overrun() {
        let mut all = Vec::new();
        let note = |all: &mut Vec<Exhausted>, id, overrun| {
            Exhausted::note(all, &Event::BudgetExhausted(WorkloadId(id), CpuId(0), Nanos(overrun)));
        };
        note(&mut all, 1, 5);
        note(&mut all, 1, 3);
        note(&mut all, 0, 0);
        assert_eq!(all[1], Exhausted { times: 2, longest_overrun: Nanos(5) });
        Exhausted::note(&mut all, &Event::Attached(WorkloadId(1)));
        assert_eq!((all[0].times, all[1]), (1, Exhausted::default()), "another workload in the slot");
    }

    #[test]
    fn a_reader_that_sleeps_loses_decisions_and_the_loop_goes_on() {
        let (mut stack, mut host) = simulated();
        let (mut watch, mut watched) = watch(stack.view(), stack.layers());
        stack.turn(&mut host).unwrap();
        for _ in 0..QUEUE {
            watch.turned(stack.view(), stack.layers());
        }
        assert_eq!(watched.lost(), QUEUE as u64);
        assert_eq!(watched.decisions().count(), QUEUE);
    }
}
