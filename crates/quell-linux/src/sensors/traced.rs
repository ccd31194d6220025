//! Signals from the kernel's tracepoints alone: waiting times, preemptions, and wake-ups by waker.

use std::collections::BTreeMap;
use std::fmt;

use quell_model::view::ThreadColumns;
use quell_model::{
    Capabilities, Class, Nanos, Quality, Sample, Signal, SignalSet, Support, ThreadId, View, WorkloadId,
};
use quell_trace::{Collector, Doing, MAX_EDGES, MAX_SLOTS, Member, Options, Totals, TraceError};

use super::Sensor;
use super::counted::CountedSensor;
use crate::LinuxError;
use crate::cgroup::Group;
use crate::members::{Members, Thread};

/// The signals that only tracing gives: it needs CAP_BPF and CAP_PERFMON.
pub const TRACED: [Signal; 5] =
    [Signal::QueueingDelay, Signal::Preemptions, Signal::LateStarts, Signal::WakeUps, Signal::SoftInterrupts];

/// This many threads at most are looked up one by one; of more, the kernel walks its whole table.
const FEW: usize = 32;

/// Room for pairs of waker and wakee, at least; and by thread.
const LEAST_EDGES: u32 = 512;
const EDGES_A_THREAD: u32 = 16;

/// Soft interrupts of a shorter time say little.
const WINDOW: Nanos = Nanos::from_millis(100);

/// A total of threads' and how it is read.
type Total = (Signal, fn(&Totals) -> u64);

/// Those that are totals of threads.
const TOTALS: [Total; 2] =
    [(Signal::Preemptions, |totals| totals.preemptions), (Signal::LateStarts, |totals| totals.late_starts)];

/// The tracepoints' tracer, and its results.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    trace: Option<Trace>,
    /// Does nothing keep this process from tracing? None: not looked at yet.
    may_trace: Option<bool>,
    /// Were signals wanted before?
    was_asked: bool,
    /// What counters add up by workload at each switch.
    pub counted: CountedSensor,
    /// By slot.
    interrupts: Vec<Interrupts>,
    /// By slot: activities of each workload's threads at the last observation that wanted queueing delays.
    pub activities: Vec<Activity>,
}

impl Sensor for Traced {
    fn report(&self, members: &Members, found: &mut Capabilities) {
        let obstacle = match (members.roots.is_this_machine(), quell_trace::obstacle()) {
            (true, None) => None,
            (true, Some((why, fix))) => Some(Support::No { why, fix }),
            (false, _) => Some(Support::No { why: "these are not this machine's threads".into(), fix: "none".into() }),
        };
        let support = obstacle.clone().unwrap_or(Support::Yes);
        found.signals.extend(TRACED.map(|signal| (signal, support.clone())));
        self.counted.report(members, obstacle, found);
    }

    fn begin(&mut self, id: WorkloadId, _: &[Group]) -> Result<(), LinuxError> {
        self.counted.forget(id.index());
        if let Some(of) = self.interrupts.get_mut(id.index()) {
            *of = Interrupts::default();
        }
        Ok(())
    }

    fn observe(&mut self, wanted: SignalSet, members: &mut Members, view: &mut View) -> Result<(), LinuxError> {
        let slots = members.slots.len();
        let counts = CountedSensor::is_wanted(wanted);
        if !(Trace::is_wanted(wanted) || counts) || !members.roots.is_this_machine() {
            return Ok(());
        }
        // Its signals are absent then, as the capabilities say: who must have them was refused before.
        if !*self.may_trace.get_or_insert_with(|| quell_trace::obstacle().is_none()) {
            return Ok(());
        }
        if !std::mem::replace(&mut self.was_asked, true) && members.options.urgent && !counts {
            if wanted.contains(Signal::QueueingDelay) {
                let later = Sample { quality: Quality::Stale, at: view.now, ..Sample::default() };
                let there = (0..slots).filter(|&slot| members.slots[slot].is_some());
                there.for_each(|slot| view.workloads.queueing_delay[slot] = later);
            }
            return Ok(());
        }
        let events = if counts { self.counted.mask(wanted, members) } else { 0 };
        let trace = match &mut self.trace {
            Some(trace) if trace.serves(wanted, events) && trace.has_room_for(wanted) => trace,
            other => {
                self.counted.restart();
                self.interrupts.clear();
                let room = Trace::room_for(members.threads.len()).max(other.as_ref().map_or(0, Trace::next_room));
                // The one before goes first: two at once may miss switches.
                *other = None;
                other.insert(Trace::begin(wanted, events, room)?)
            }
        };
        trace.follow(&members.threads)?;
        if counts {
            self.counted.observe(wanted, members, &mut trace.collector, view)?;
        }
        if wanted.contains_threads_of(Class::LatencyCritical) {
            trace.fill(wanted, &members.threads, &mut view.threads)?;
        }
        if wanted.contains(Signal::SoftInterrupts) {
            self.interrupts.resize_with(slots, Interrupts::default);
            for (at, of) in self.interrupts.iter_mut().enumerate().filter(|(at, _)| members.slots[*at].is_some()) {
                let Some(slot) = slot(WorkloadId(at as u32)) else { continue };
                view.workloads.soft_interrupt_rate[at] = of.look(view.now, || trace.collector.soft_interrupts(slot));
            }
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

#[cfg(test)]
impl Traced {
    pub fn collector(&self) -> Option<&Collector> {
        self.trace.as_ref().map(|trace| &trace.collector)
    }
}

/// The threads that are traced. It begins when a policy first wants a signal that needs it, and ends with the host.
struct Trace {
    collector: Collector,
    /// Are wake-up edges counted?
    edges: bool,
    /// How many there is room for.
    edge_room: u32,
    /// Are soft interrupts?
    soft_interrupts: bool,
    /// Events that are counted by workload, by bit.
    counted: u32,
    /// The threads that the collector watches with their slots, ascending.
    watched: Vec<(i32, u16)>,
}

/// Soft interrupts of a workload.
#[derive(Clone, Copy, Debug, Default)]
struct Interrupts {
    /// The last look and the count then.
    before: Option<(Nanos, u64)>,
    rate: Sample<f64>,
}

impl Interrupts {
    /// The rate since the look before, which is a window ago at least.
    fn look(&mut self, now: Nanos, count: impl FnOnce() -> u64) -> Sample<f64> {
        if self.before.is_some_and(|(at, _)| now < at + WINDOW) {
            return self.rate;
        }
        let count = count();
        if let Some((at, had)) = self.before.replace((now, count)) {
            let span = now - at;
            self.rate = Sample::over(count.saturating_sub(had) as f64 / span.as_secs_f64(), now, span);
        }
        self.rate
    }
}

/// The collector's slot of a workload; None: it has too few.
fn slot(id: WorkloadId) -> Option<u16> {
    u16::try_from(id.0).ok().filter(|&slot| usize::from(slot) < MAX_SLOTS)
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

    /// Room for the wake-up edges of this many threads.
    fn room_for(threads: usize) -> u32 {
        let wanted = u32::try_from(threads).unwrap_or(u32::MAX).saturating_mul(EDGES_A_THREAD);
        wanted.clamp(LEAST_EDGES, MAX_EDGES).next_power_of_two()
    }

    /// Room for those that come in its place.
    fn next_room(&self) -> u32 {
        if self.has_room_for(SignalSet::of(&[Signal::WakeUps])) {
            self.edge_room
        } else {
            self.edge_room.saturating_mul(8).min(MAX_EDGES)
        }
    }

    /// Was there room for all wake-up edges, if they are wanted, as far as there can be?
    fn has_room_for(&self, wanted: SignalSet) -> bool {
        let is_counted = self.edges && wanted.contains(Signal::WakeUps);
        !is_counted || self.edge_room == MAX_EDGES || self.collector.losses().edges == 0
    }

    /// Begins to trace for these signals.
    fn begin(wanted: SignalSet, counted: u32, edge_room: u32) -> Result<Trace, LinuxError> {
        let edges = wanted.contains(Signal::WakeUps);
        let soft_interrupts = wanted.contains(Signal::SoftInterrupts);
        let options = Options { edges, edge_room, soft_interrupts, counted, ..Options::default() };
        let collector = Collector::open(options)?;
        Ok(Trace { collector, edges, edge_room, soft_interrupts, counted, watched: Vec::new() })
    }

    /// Does it trace all that these signals and these counted events need?
    fn serves(&self, wanted: SignalSet, counted: u32) -> bool {
        (self.edges || !wanted.contains(Signal::WakeUps))
            && (self.soft_interrupts || !wanted.contains(Signal::SoftInterrupts))
            && self.counted & counted == counted
    }

    /// Traces these threads, ascending by number, and no others. Children of theirs are traced from birth.
    fn follow(&mut self, threads: &[Thread]) -> Result<(), LinuxError> {
        // What is counted of workloads beyond the collector's slots is counted of its last one, and not asked for.
        let member = |thread: &Thread| (thread.id.tid, slot(thread.workload).unwrap_or(MAX_SLOTS as u16 - 1));
        if self.watched.iter().copied().eq(threads.iter().map(member)) {
            return Ok(());
        }
        let is_there = |watched: &(i32, u16)| {
            threads
                .binary_search_by_key(&watched.0, |thread| thread.id.tid)
                .is_ok_and(|at| member(&threads[at]) == *watched)
        };
        for &(gone, _) in self.watched.iter().filter(|watched| !is_there(watched)) {
            self.collector.unwatch(gone)?;
        }
        for (tid, slot) in threads.iter().map(member).filter(|new| self.watched.binary_search(new).is_err()) {
            match self.collector.watch(Member { tid, slot }) {
                Err(TraceError::TooMany { max }) => {
                    tracing::warn!("more than {max} threads: those that came last are not traced");
                    break;
                }
                result => result?,
            }
        }
        self.watched.clear();
        self.watched.extend(threads.iter().map(member));
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

    /// Totals of these threads, as far as they are watched.
    fn totals(&self, threads: &[ThreadId]) -> Result<BTreeMap<i32, Totals>, LinuxError> {
        if threads.len() > FEW {
            return Ok(self.collector.threads()?.iter().map(|(member, known)| (member.tid, known.totals)).collect());
        }
        let mut totals = BTreeMap::new();
        for thread in threads {
            totals.extend(self.collector.thread(thread.tid)?.map(|known| (thread.tid, known.totals)));
        }
        Ok(totals)
    }

    /// Fills the columns that are wanted, of the threads that are there already.
    fn fill(&self, wanted: SignalSet, threads: &[Thread], columns: &mut ThreadColumns) -> Result<(), LinuxError> {
        if TOTALS.iter().any(|&(signal, _)| wanted.contains(signal)) {
            let counted = self.totals(&columns.id)?;
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
            let mut edges = self.collector.edges()?;
            if edges.len() as u32 >= self.edge_room / 4 * 3 {
                let has_ended = |edge: &&quell_trace::Edge| {
                    known(edge.wakee).is_none() || edge.waker.is_some_and(|waker| known(waker).is_none())
                };
                edges.iter().filter(has_ended).try_for_each(|edge| self.collector.forget_edge(*edge))?;
            }
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

#[cfg(test)]
mod tests {
    use quell_model::Host;

    use super::*;
    use crate::{HostOptions, LinuxHost, Roots};

    #[test]
    fn an_urgent_host_begins_to_trace_at_the_second_look() {
        if let Some((why, _)) = quell_trace::obstacle() {
            return eprintln!("not tested here: {why}");
        }
        for urgent in [true, false] {
            let options = HostOptions { urgent, ..HostOptions::default() };
            let mut host = LinuxHost::new(Roots::default(), options).unwrap();
            let mut view = View::new(host.topology());
            let mut traces = || {
                host.observe(SignalSet::of(&[Signal::QueueingDelay]), &mut view, &mut Vec::new()).unwrap();
                host.sensors.traced.collector().is_some()
            };
            assert_eq!([traces(), traces()], [!urgent, true]);
        }
    }

    #[test]
    fn soft_interrupts_are_a_rate_over_a_window() {
        let (mut of, second) = (Interrupts::default(), Nanos::from_secs(1));
        assert_eq!(of.look(second, || 100).usable(), None, "the first look");
        assert_eq!(of.look(second + WINDOW, || 150).usable(), Some(500.0));
        assert_eq!(of.look(second + WINDOW + Nanos(1), || 10_000).usable(), Some(500.0), "too soon");
    }
}
