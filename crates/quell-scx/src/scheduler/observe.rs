//! Fills the view from the memory that the scheduler shares.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use quell_model::{CpuId, CpuSet, Event, Nanos, Quality, Sample, Signal, SignalSet, View, WorkloadId};

use super::Scx;
use super::exported::Request;
use crate::layout::{NO_SLOT, QUEUE_TIMES, WorkloadState};
use crate::program::Holder;
use crate::sockets::unread_delay;

/// What the scheduler alone measures.
const OURS: [Signal; 4] = [Signal::QueueingDelay, Signal::UnreadDelay, Signal::Holder, Signal::RequestStart];
/// Counters of decisions are read at most this often.
const COUNTERS_AGAIN: Nanos = Nanos::from_millis(100);

/// The signals that the host's sensors measure.
pub(super) fn left_to_sensors(wanted: SignalSet) -> SignalSet {
    let ours = |signal: &Signal| OURS.contains(signal) || Signal::DECISIONS.contains(signal);
    let theirs = |signal: &&Signal| wanted.contains(**signal) && !ours(signal);
    Signal::ALL.iter().filter(theirs).fold(SignalSet::default(), |set, signal| set.union(SignalSet::of(&[*signal])))
}

impl Scx {
    pub(super) fn fill(&mut self, wanted: SignalSet, view: &mut View) {
        let now = view.now;
        // Workloads that no CPU is granted to have no slot; what the stock host measured of them stays.
        let columns = &mut view.workloads;
        let sees_sockets = self.grant.can_watch_sockets();
        let waiting = self.grant.waiting();
        let all = &self.grant.shared().workload;
        for ((slot, attached), state) in self.slots.iter().enumerate().zip(all) {
            let Some(attached) = attached else { continue };
            if let Some(delay) = columns.queueing_delay.get_mut(slot) {
                *delay = match waiting.contains(WorkloadId(slot as u32)) {
                    true => queueing_delay(state, now),
                    false => Sample::exact(Nanos::ZERO, now),
                };
            }
            if let Some(delay) = columns.unread_delay.get_mut(slot)
                && sees_sockets
                && state.lc.load(Relaxed) == 1
            {
                *delay = unread_delay(state, now);
            }
            if let Some(time) = columns.run_time.get_mut(slot) {
                let run_time = state.run_time.load(Relaxed).saturating_sub(attached.run_time_before);
                *time = Sample::exact(Nanos(run_time), now);
            }
        }
        self.fill_cpus(wanted, view);
        self.fill_decisions(wanted, view);
    }

    fn fill_decisions(&mut self, wanted: SignalSet, view: &mut View) {
        if !Signal::DECISIONS.iter().any(|signal| wanted.contains(*signal)) {
            return;
        }
        if self.seen.decided.0.is_none_or(|at| view.now >= at + COUNTERS_AGAIN) {
            self.seen.decided = (Some(view.now), self.grant.decisions());
        }
        let (at, decided) = (self.seen.decided.0.unwrap_or(view.now), self.seen.decided.1);
        let machine = &mut view.machine;
        for (place, count) in [
            (&mut machine.cpus_taken, decided.preempted),
            (&mut machine.threads_stayed, decided.stayed),
            (&mut machine.threads_made_way, decided.made_way),
            (&mut machine.made_way_in_vain, decided.in_vain),
            (&mut machine.threads_fetched, decided.fetched),
            (&mut machine.starving_turns, decided.starving),
            (&mut machine.cgroups_throttled, decided.throttled),
            (&mut machine.cpus_refused, decided.refused),
            (&mut machine.threads_overtaken, decided.overtaken),
            (&mut machine.turns_beside_servers, decided.beside_server),
            (&mut machine.threads_passed, decided.passed),
        ] {
            *place = Sample::exact(count, at);
        }
    }

    fn fill_cpus(&mut self, wanted: SignalSet, view: &mut View) {
        let now = view.now;
        self.meet_cpus(view);
        self.seen.exported.follow_all(&self.grant, &self.topology);
        let columns = self.topology.columns();
        let cpus = &mut view.cpus;
        cpus.holder.clear();
        (cpus.idle, cpus.banned, cpus.away) = (CpuSet::EMPTY, CpuSet::EMPTY, CpuSet::EMPTY);
        for cpu in (0..columns as u32).map(CpuId) {
            let state = self.grant.cpu(cpu);
            self.seen.holders[cpu.index()] = self.grant.holder(cpu);
            cpus.holder.push(self.seen.holders[cpu.index()].workload());
            if state.runs.load(Acquire) == NO_SLOT {
                cpus.idle.insert(cpu);
            }
            // A real-time thread has it: it cannot be handed out until that sleeps.
            if state.away.load(Acquire) != 0 {
                cpus.away.insert(cpu);
            }
            let start = state.request_start.load(Acquire);
            if wanted.contains(Signal::RequestStart) {
                let began = match self.seen.exported.on(state) {
                    Request::Exported(began) => began,
                    Request::Guessed => (start != 0).then_some(Nanos(start)),
                };
                let sample = began.map_or(Sample::default(), |began| Sample::exact(began, now));
                cpus.request_start.push(sample);
            }
            if start != 0 && state.banned_for.load(Acquire) == start {
                cpus.banned = cpus.banned.union(&self.topology.siblings_of(cpu));
            }
        }
        self.grant.count_bans();
        view.scope.pool = view.scope.pool.intersection(&self.topology.all());
    }

    /// CPUs that were offline when the scheduler was loaded report their place when they come.
    fn meet_cpus(&mut self, view: &View) {
        if Arc::ptr_eq(&self.topology, &view.topology) {
            return;
        }
        let came = view.topology.all().difference(&self.topology.all());
        if !came.is_empty() {
            tracing::info!(cpus = %came, "CPUs came that were offline before");
        }
        self.topology = Arc::clone(&view.topology);
        let columns = self.topology.columns();
        self.seen.yields.resize(columns, 0);
        self.seen.holders.resize(columns, Holder::default());
        self.grant.know_topology(&self.topology);
    }

    /// What happened since the last time: CPUs that were yielded, queues that formed.
    pub(super) fn collect(&mut self, events: &mut Vec<Event>) {
        let before = events.len();
        events.append(&mut self.reported);
        for (cpu, before) in self.seen.yields.iter_mut().enumerate() {
            let id = CpuId(cpu as u32);
            let state = self.grant.cpu(id);
            let yields = state.yields.load(Acquire);
            if std::mem::replace(before, yields) != yields {
                events.push(Event::Yielded(id, WorkloadId(state.yielder.load(Relaxed))));
            }
        }
        // A queue that formed and was served since the last time may be out: if it waits when it is in again, it is reported then.
        for id in self.grant.waiting().iter() {
            let Some(Some(attached)) = self.slots.get_mut(id.index()) else { continue };
            let state = &self.grant.shared().workload[id.index()];
            let formed = state.formed.load(Acquire);
            if std::mem::replace(&mut attached.formed, formed) != formed && waiting(state) > 0 {
                events.push(Event::QueueFormed(id));
            }
        }
        self.hear_of_servers(events);
        let is_such = |event: &Event| matches!(*event, Event::QueueFormed(id) if self.is_best_effort_in_line(id));
        if events[before..].iter().any(is_such) {
            self.seen.best_effort_at = quell_linux::now();
        }
    }
}

fn waiting(state: &WorkloadState) -> u64 {
    // In this order: a thread that comes in between makes the queue longer, not negative.
    let taken = state.taken.load(Acquire);
    state.queued.load(Acquire).saturating_sub(taken)
}

/// How long the oldest waiting thread has waited. Exact where threads are taken in the order in which they came and the
/// queue is not longer than what is remembered.
pub(super) fn queueing_delay(state: &WorkloadState, now: Nanos) -> Sample<Nanos> {
    let taken = state.taken.load(Acquire);
    let waiting = state.queued.load(Acquire).saturating_sub(taken);
    if waiting == 0 {
        return Sample::exact(Nanos::ZERO, now);
    }
    let since = Nanos(state.since[taken as usize % QUEUE_TIMES].load(Acquire));
    let exact = state.lc.load(Relaxed) == 1 && waiting <= QUEUE_TIMES as u64;
    let quality = if exact { Quality::Exact } else { Quality::Estimated };
    Sample { quality, ..Sample::exact(now - since, now) }
}
