//! Fills the view.

use std::sync::Arc;

use quell_model::{Class, Nanos, Quality, Sample, Signal, SignalSet, ThreadState, View, WorkloadId};

use super::trace::{Activity, Trace};
use super::{Level, LinuxHost, resolved};
use crate::LinuxError;
use crate::procfs::{SchedStat, ticks};

impl LinuxHost {
    pub(super) fn fill(&mut self, wanted: SignalSet, now: Nanos, view: &mut View) -> Result<(), LinuxError> {
        if !Arc::ptr_eq(&view.topology, &self.topology) {
            view.topology = Arc::clone(&self.topology);
        }
        view.now = now;
        view.cpus.online = self.online;
        self.fill_specs(view);
        let holders = wanted.contains(Signal::Holder);
        let times = wanted.contains(Signal::RunDelay) || (wanted.contains(Signal::RunTime) && self.some_on_threads());
        self.on_cpu.clear();
        self.read_threads(wanted, times || holders)?;
        self.fill_holders(holders, view);
        if wanted.contains_threads_of(Class::LatencyCritical) {
            self.fill_threads(wanted, now, view);
        }
        self.bandwidth.fill(wanted, view);
        self.canary.fill(wanted, view);
        self.fill_columns(wanted, now, view)?;
        if Trace::is_wanted(wanted) && self.roots.is_this_machine() {
            self.fill_traced(wanted, now, view)?;
        }
        Ok(())
    }

    fn fill_specs(&self, view: &mut View) {
        let specs = &mut view.workloads.spec;
        specs.resize(self.slots.len(), None);
        for (spec, managed) in specs.iter_mut().zip(&self.slots) {
            let ours = managed.as_ref().map(|managed| &managed.spec);
            let same = match (spec.as_ref(), ours) {
                (Some(theirs), Some(ours)) => Arc::ptr_eq(theirs, ours),
                (None, None) => true,
                _ => false,
            };
            if !same {
                *spec = ours.cloned();
            }
        }
    }

    pub(super) fn some_on_threads(&self) -> bool {
        self.slots.iter().flatten().any(|managed| managed.level == Level::Threads)
    }

    /// Reads the times of all threads, or of those that are wanted with their states. A thread that is gone is found
    /// out by the scan.
    fn read_threads(&mut self, wanted: SignalSet, times: bool) -> Result<(), LinuxError> {
        let holders = wanted.contains(Signal::Holder);
        for thread in &mut self.threads {
            let managed = self.slots.get_mut(thread.workload.index()).and_then(Option::as_mut);
            let states = managed.as_ref().is_some_and(|managed| wanted.contains_threads_of(managed.spec.class));
            if !states && !times {
                continue;
            }
            let counted = self.proc.schedstat(thread.pid, thread.id.tid)?;
            let mut run = counted.unwrap_or(thread.run);
            let ran = run.run_time - thread.run.run_time;
            // Who runs now has run since the last look.
            let may_run = holders && ran > Nanos::ZERO;
            if states || may_run || counted.is_none() {
                let stat = self.proc.stat(thread.pid, thread.id.tid)?.filter(|stat| stat.start == thread.id.start);
                let Some(stat) = stat else {
                    thread.state = ThreadState::Dead;
                    continue;
                };
                (thread.state, thread.cpu, thread.class) = (stat.state, stat.cpu, stat.class);
                if counted.is_none() {
                    run = SchedStat { run_time: ticks(stat.ticks), ..SchedStat::default() };
                }
            }
            thread.exact = counted.is_some();
            if may_run && thread.state == ThreadState::Runnable {
                self.on_cpu.push((thread.cpu, ran, thread.workload));
            }
            if let Some(managed) = managed {
                managed.run_time += run.run_time - thread.run.run_time;
                managed.run_delay += run.run_delay - thread.run.run_delay;
            }
            thread.run = run;
        }
        Ok(())
    }

    /// Who runs on each CPU: the workload of a runnable thread that is on it; of several, that which ran most.
    fn fill_holders(&mut self, wanted: bool, view: &mut View) {
        let holder = &mut view.cpus.holder;
        holder.clear();
        if !wanted {
            return;
        }
        holder.resize(self.topology.columns(), None);
        self.on_cpu.sort_unstable_by_key(|&(_, ran, _)| ran);
        for &(cpu, _, workload) in &self.on_cpu {
            if let Some(slot) = holder.get_mut(cpu.index()) {
                *slot = Some(workload);
            }
        }
    }

    fn fill_threads(&self, wanted: SignalSet, now: Nanos, view: &mut View) {
        let columns = &mut view.threads;
        columns.clear();
        columns.at = now;
        for thread in self.threads.iter().filter(|thread| thread.state != ThreadState::Dead) {
            let managed = self.managed(thread.workload);
            if managed.is_none_or(|managed| !wanted.contains_threads_of(managed.spec.class)) {
                continue;
            }
            columns.id.push(thread.id);
            columns.workload.push(thread.workload);
            columns.state.push(thread.state);
            columns.cpu.push(thread.cpu);
            columns.run_time.push(thread.run.run_time);
            columns.run_delay.push(thread.run.run_delay);
            columns.class.push(thread.class);
        }
    }

    fn fill_traced(&mut self, wanted: SignalSet, now: Nanos, view: &mut View) -> Result<(), LinuxError> {
        let trace = match &mut self.trace {
            Some(trace) if trace.serves(wanted) => trace,
            other => other.insert(Trace::begin(wanted)?),
        };
        trace.follow(&self.threads)?;
        if wanted.contains_threads_of(Class::LatencyCritical) {
            trace.fill(wanted, &self.threads, &mut view.threads)?;
        }
        if wanted.contains(Signal::QueueingDelay) {
            self.activities.clear();
            self.activities.resize(self.slots.len(), Activity::default());
            trace.activities(&self.threads, &mut self.activities)?;
            for (slot, activity) in self.activities.iter().enumerate().filter(|(slot, _)| self.slots[*slot].is_some()) {
                view.workloads.queueing_delay[slot] = activity.queueing_delay(now);
            }
        }
        Ok(())
    }

    fn fill_columns(&mut self, wanted: SignalSet, now: Nanos, view: &mut View) -> Result<(), LinuxError> {
        let slots = self.slots.len();
        let columns = &mut view.workloads;
        let run_time = reset(&mut columns.run_time, wanted.contains(Signal::RunTime), slots);
        let run_delay = reset(&mut columns.run_delay, wanted.contains(Signal::RunDelay), slots);
        let thread_count = reset(&mut columns.thread_count, wanted.contains(Signal::ThreadCount), slots);
        let latency = reset(&mut columns.latency, wanted.contains(Signal::Latency), slots);
        reset(&mut columns.queueing_delay, wanted.contains(Signal::QueueingDelay), slots);
        let mut may_stay_open = self.may_stay_open;
        for (slot, managed) in self.slots.iter_mut().enumerate() {
            let Some(managed) = managed else { continue };
            if run_time {
                columns.run_time[slot] = match managed.level {
                    Level::Cgroup => {
                        let groups =
                            resolved(&self.selectors, WorkloadId(slot as u32)).map_or(&[][..], |found| &found.groups);
                        let (used, kept) = managed.usage.read(groups, may_stay_open)?;
                        may_stay_open -= kept;
                        Sample::exact(used, now)
                    }
                    Level::Threads => Sample::exact(managed.run_time, now),
                };
            }
            if run_delay {
                columns.run_delay[slot] = Sample::exact(managed.run_delay, now);
            }
            if thread_count {
                let at = self.full_look.at.unwrap_or(now);
                columns.thread_count[slot] = Sample::exact(managed.threads, at);
            }
            if latency {
                let stale = managed.latency.quality > Quality::Stale
                    && now - managed.latency.at > self.options.latency_stale_after;
                let quality = if stale { Quality::Stale } else { managed.latency.quality };
                columns.latency[slot] = Sample { quality, ..managed.latency };
            }
        }
        if run_time || run_delay {
            self.mark_estimates(view);
        }
        Ok(())
    }

    /// Where the kernel does not count, run times are whole ticks and run delays are not known.
    fn mark_estimates(&self, view: &mut View) {
        for thread in self.threads.iter().filter(|thread| !thread.exact) {
            let slot = thread.workload.index();
            if let Some(sample) = view.workloads.run_time.get_mut(slot)
                && self.slots[slot].as_ref().is_some_and(|managed| managed.level == Level::Threads)
            {
                sample.quality = Quality::Estimated;
            }
            if let Some(sample) = view.workloads.run_delay.get_mut(slot) {
                sample.quality = Quality::Absent;
            }
        }
    }
}

/// Empties a column that is not wanted, and makes the other absent everywhere.
fn reset<T: Copy + Default>(column: &mut Vec<Sample<T>>, wanted: bool, slots: usize) -> bool {
    column.clear();
    if wanted {
        column.resize(slots, Sample::default());
    }
    wanted
}
