//! Signals from the kernel's tracepoints alone: waiting times, preemptions, and wake-ups by waker.

use std::collections::BTreeMap;
use std::fmt;

use quell_model::view::ThreadColumns;
use quell_model::{Capabilities, Class, Nanos, Sample, Signal, SignalSet, Support, ThreadId, View};
use quell_trace::{Collector, Doing, Member, Options, Totals, TraceError};

use super::Sensor;
use crate::LinuxError;
use crate::members::{Members, Thread};

/// The signals that only tracing gives: it needs CAP_BPF and CAP_PERFMON.
pub const TRACED: [Signal; 4] = [Signal::QueueingDelay, Signal::Preemptions, Signal::LateStarts, Signal::WakeUps];

/// A total of threads' and how it is read.
type Total = (Signal, fn(&Totals) -> u64);

/// Those that are totals of threads.
const TOTALS: [Total; 2] =
    [(Signal::Preemptions, |totals| totals.preemptions), (Signal::LateStarts, |totals| totals.late_starts)];

/// The tracepoints' tracer, and its results.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    trace: Option<Trace>,
    /// By slot: activities of each workload's threads at the last observation that wanted queueing delays.
    pub activities: Vec<Activity>,
}

impl Sensor for Traced {
    fn tell(&self, members: &Members, found: &mut Capabilities) {
        for signal in TRACED {
            let support = match (members.roots.is_this_machine(), quell_trace::obstacle()) {
                (true, None) => Support::Yes,
                (true, Some((why, mend))) => Support::No { why, mend },
                (false, _) => Support::No { why: "these are not this machine's threads".into(), mend: "none".into() },
            };
            found.signals.insert(signal, support);
        }
    }

    fn observe(&mut self, wanted: SignalSet, members: &mut Members, view: &mut View) -> Result<(), LinuxError> {
        let slots = members.slots.len();
        if !Trace::is_wanted(wanted) || !members.roots.is_this_machine() {
            return Ok(());
        }
        let trace = match &mut self.trace {
            Some(trace) if trace.serves(wanted) => trace,
            other => other.insert(Trace::begin(wanted)?),
        };
        trace.follow(&members.threads)?;
        if wanted.contains_threads_of(Class::LatencyCritical) {
            trace.fill(wanted, &members.threads, &mut view.threads)?;
        }
        if wanted.contains(Signal::QueueingDelay) {
            self.activities.clear();
            self.activities.resize(slots, Activity::default());
            trace.activities(&members.threads, &mut self.activities)?;
            for (slot, activity) in
                self.activities.iter().enumerate().filter(|(slot, _)| members.slots[*slot].is_some())
            {
                view.workloads.queueing_delay[slot] = activity.queueing_delay(view.now);
            }
        }
        Ok(())
    }
}

/// The threads that are traced. It begins when a policy first wants a signal that needs it, and ends with the host.
struct Trace {
    collector: Collector,
    /// Are wake-up edges counted?
    edges: bool,
    /// The threads that the collector watches, ascending.
    watched: Vec<i32>,
}

/// Present activity of a workload's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Threads that run or wait for a CPU.
    pub runnable: u32,
    /// Start of the longest present wait.
    pub waiting_since: Option<Nanos>,
}

impl Activity {
    /// Waiting time of the oldest waiting thread.
    pub fn queueing_delay(&self, now: Nanos) -> Sample<Nanos> {
        Sample::exact(self.waiting_since.map_or(Nanos::ZERO, |since| now - since), now)
    }
}

impl Trace {
    fn is_wanted(wanted: SignalSet) -> bool {
        TRACED.iter().any(|&signal| wanted.contains(signal))
    }

    /// Begins to trace for these signals.
    fn begin(wanted: SignalSet) -> Result<Trace, LinuxError> {
        let edges = wanted.contains(Signal::WakeUps);
        let options = Options { events: false, edges, cost: false };
        Ok(Trace { collector: Collector::open(options)?, edges, watched: Vec::new() })
    }

    /// Does it trace all that these signals need?
    fn serves(&self, wanted: SignalSet) -> bool {
        self.edges || !wanted.contains(Signal::WakeUps)
    }

    /// Traces these threads, ascending by number, and no others. Children of theirs are traced from birth.
    fn follow(&mut self, threads: &[Thread]) -> Result<(), LinuxError> {
        let unchanged = self.watched.len() == threads.len()
            && self.watched.iter().zip(threads).all(|(&watched, thread)| watched == thread.id.tid);
        if unchanged {
            return Ok(());
        }
        for thread in threads.iter().filter(|thread| self.watched.binary_search(&thread.id.tid).is_err()) {
            // Sums by workload are not asked for: one slot will do for all.
            match self.collector.watch(Member { tid: thread.id.tid, slot: 0 }) {
                Err(TraceError::TooMany { max }) => {
                    tracing::warn!("more than {max} threads: those that came last are not traced");
                    break;
                }
                result => result?,
            }
        }
        let is_there = |tid: &i32| threads.binary_search_by_key(tid, |thread| thread.id.tid).is_ok();
        for &gone in self.watched.iter().filter(|tid| !is_there(tid)) {
            self.collector.unwatch(gone)?;
        }
        self.watched.clear();
        self.watched.extend(threads.iter().map(|thread| thread.id.tid));
        // Newcomers may run, or wait, without an event for long.
        Ok(self.collector.look()?)
    }

    /// Present activities of each workload's threads, by slot.
    fn activities(&self, threads: &[Thread], activities: &mut [Activity]) -> Result<(), LinuxError> {
        for thread in threads {
            let Some(activity) = activities.get_mut(thread.workload.index()) else { continue };
            let Some(known) = self.collector.thread(thread.id.tid)? else { continue };
            activity.runnable += u32::from(known.doing != Doing::Sleeping);
            if known.doing == Doing::Waiting {
                activity.waiting_since =
                    Some(activity.waiting_since.map_or(known.since, |oldest| oldest.min(known.since)));
            }
        }
        Ok(())
    }

    /// Fills the columns that are wanted, of the threads that are there already.
    fn fill(&self, wanted: SignalSet, threads: &[Thread], columns: &mut ThreadColumns) -> Result<(), LinuxError> {
        if TOTALS.iter().any(|&(signal, _)| wanted.contains(signal)) {
            let counted: BTreeMap<i32, Totals> =
                self.collector.threads()?.iter().map(|(member, known)| (member.tid, known.totals)).collect();
            for (signal, of) in TOTALS.into_iter().filter(|&(signal, _)| wanted.contains(signal)) {
                for row in 0..columns.len() {
                    let totals = counted.get(&columns.id[row].tid);
                    columns.push(signal, totals.map(|totals| of(totals) as f64));
                }
            }
        }
        let ThreadColumns { id, wake_ups, .. } = columns;
        if wanted.contains(Signal::WakeUps) {
            let known = |tid: i32| -> Option<ThreadId> {
                let at = threads.binary_search_by_key(&tid, |thread| thread.id.tid).ok()?;
                Some(threads[at].id)
            };
            // The columns are in the order of the threads.
            let is_wanted = |tid: i32| id.binary_search_by_key(&tid, |thread| thread.tid).is_ok();
            let mut edges = self.collector.edges();
            edges.sort_unstable_by_key(|edge| (edge.wakee, edge.waker));
            for edge in edges {
                if let Some(woken) = known(edge.wakee).filter(|woken| is_wanted(woken.tid)) {
                    wake_ups.push(edge.waker.and_then(known), woken, edge.count);
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("watched", &self.watched.len()).finish_non_exhaustive()
    }
}
