//! Instructions, cycles, use of the last-level cache and full queues to it by workload, from counters that are added up at the
//! switch: four or five a CPU, however many workloads.

mod chosen;
mod full;
mod own_group;
#[cfg(test)]
mod tests;

use std::io;

use quell_model::{
    BytesPerSecond, Capabilities, CpuId, CpuSet, Nanos, Quality, Sample, Signal, SignalSet, Support, View,
};
use quell_trace::{COUNTED_EVENTS, Collector, CounterTime, Counts, MAX_SLOTS};

use self::chosen::Chosen;
use self::own_group::OwnGroup;
use crate::LinuxError;
use crate::members::Members;
use crate::perf::{
    CYCLES, Counter, Counters, Events, FULL, INSTRUCTIONS, Kernel, LINE_BYTES, Lack, MISSES, REFERENCES, counts_cycles,
};

/// The signals that counters and tracing give together: CAP_BPF and CAP_PERFMON.
pub const COUNTED: [Signal; 5] = [
    Signal::InstructionRate,
    Signal::CycleRate,
    Signal::LlcHitRatio,
    Signal::WorkloadBandwidth,
    Signal::BufferFullRate,
];

/// Counts over a shorter span say little, and each reading interrupts every CPU.
const WINDOW: Nanos = Nanos::from_millis(10);
/// Counters that were lost are opened again at this interval.
const RETRY: Nanos = Nanos::from_secs(1);

/// The counters of all CPUs, and what they counted of each workload.
pub(crate) struct CountedSensor {
    counters: Box<dyn Counters>,
    chosen: Chosen,
    /// Are full queues counted? They take a counter more, and are if a policy reads them.
    counts_full: bool,
    /// By CPU and event, the open ones.
    open: Vec<[Option<Box<dyn Counter>>; COUNTED_EVENTS]>,
    /// The CPUs on which they were opened.
    on: CpuSet,
    retry_at: Nanos,
    /// Failed readings when they were opened last, and at the last reading.
    failed: u64,
    failed_before: u64,
    /// Times of the counters at the last reading, by event.
    times: [CounterTime; COUNTED_EVENTS],
    /// By slot.
    workloads: Vec<OfWorkload>,
    at: Option<Nanos>,
}

/// How far counts of a window can be trusted, by event.
type Window = [Share; COUNTED_EVENTS];

/// The counters of one event in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share {
    /// A count becomes what it would have been had the counters had the hardware all the time.
    times: f64,
    quality: Quality,
}

/// A workload's counts at the last reading, and the rates since the one before.
#[derive(Debug, Default)]
struct OfWorkload {
    before: Option<Counts>,
    instructions: Sample<f64>,
    cycles: Sample<f64>,
    hit_ratio: Sample<f64>,
    bandwidth: Sample<BytesPerSecond>,
    buffer_full: Sample<f64>,
    group: OwnGroup,
}

impl std::fmt::Debug for CountedSensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CountedSensor").field("on", &self.on).field("at", &self.at).finish_non_exhaustive()
    }
}

impl Default for CountedSensor {
    fn default() -> CountedSensor {
        CountedSensor::with(Box::new(Kernel), Chosen::default())
    }
}

impl CountedSensor {
    fn with(counters: Box<dyn Counters>, chosen: Chosen) -> CountedSensor {
        CountedSensor {
            counters,
            chosen,
            counts_full: false,
            open: Vec::new(),
            on: CpuSet::EMPTY,
            retry_at: Nanos::ZERO,
            failed: 0,
            failed_before: 0,
            times: Default::default(),
            workloads: Vec::new(),
            at: None,
        }
    }

    pub fn is_wanted(wanted: SignalSet) -> bool {
        COUNTED.iter().any(|&signal| wanted.contains(signal))
    }

    /// The events of a CPU that are counted.
    fn counted_on(&self, cpu: CpuId) -> Events {
        let mut events = self.chosen.of(cpu);
        events[FULL] = events[FULL].filter(|_| self.counts_full);
        events
    }

    /// The events that a collector is to read for these signals, and for those wanted before, by bit.
    pub fn mask(&mut self, wanted: SignalSet, members: &Members) -> u32 {
        self.counts_full |= wanted.contains(Signal::BufferFullRate);
        self.chosen.follow(members);
        let left_out = if self.counts_full { 0 } else { 1 << FULL };
        self.chosen.mask() & !left_out
    }

    /// Reports the signals, where `traced` is what keeps the kernel's tracepoints away, if anything does. If nothing is
    /// counted yet, a counter of each event is tried and closed again.
    pub fn report(&self, members: &Members, traced: Option<Support>, found: &mut Capabilities) {
        let of_all = |support: Support| COUNTED.map(|signal| (signal, support.clone()));
        if let Some(no) = traced {
            found.signals.extend(of_all(no));
            return;
        }
        let Some(cpu) = members.online.lowest() else { return };
        let events = self.chosen.choose(&members.roots, cpu);
        let lack = |at: usize| -> Option<Lack> {
            let event = events[at]?;
            self.counters.open(event, cpu).err().map(|error| Lack::of(&error))
        };
        let support = |lack: Option<Lack>| lack.map_or(Support::Yes, |lack| lack.support());
        let make = self.chosen.processor(&members.roots).make;
        let last_level = make.lacks_last_level(&events).or_else(|| lack(REFERENCES)).or_else(|| lack(MISSES));
        let bandwidth = match (OwnGroup::is_there(&members.roots), &last_level) {
            (true, _) => {
                Support::Partly("of workloads with a resctrl group of their own; of others a line a miss".into())
            }
            (false, None) => Support::Partly("estimated as a cache line for each LLC miss".into()),
            (false, Some(lack)) => lack.support(),
        };
        let full = match (events[FULL], lack(FULL), &last_level) {
            (Some(event), None, _) if counts_cycles(event) => Support::Partly(
                "this generation counts cycles with a full queue, not requests that found it so: many times as many".into(),
            ),
            (Some(_), None, _) => Support::Yes,
            (_, _, None) => Support::Partly(
                "estimated from LLC misses a cycle, and from memory's slowdown where a policy reads that; no event of a \
                 full queue is known or counted here"
                    .into(),
            ),
            (_, _, Some(lack)) => lack.support(),
        };
        found.signals.extend([
            (Signal::BufferFullRate, full),
            (Signal::InstructionRate, support(lack(INSTRUCTIONS))),
            (Signal::CycleRate, support(lack(CYCLES))),
            (Signal::LlcHitRatio, support(last_level)),
            (Signal::WorkloadBandwidth, bandwidth),
        ]);
    }

    /// A new collector has no counters, and its sums begin at zero.
    pub fn restart(&mut self) {
        self.open.clear();
        self.on = CpuSet::EMPTY;
        self.workloads.iter_mut().for_each(|of| of.before = None);
        self.times = Default::default();
        (self.at, self.failed, self.failed_before) = (None, 0, 0);
    }

    /// A slot has another workload.
    pub fn forget(&mut self, slot: usize) {
        if let Some(of) = self.workloads.get_mut(slot) {
            *of = OfWorkload::default();
        }
    }

    /// Fills the wanted columns; reads the counters anew if the last reading is old enough.
    pub fn observe(
        &mut self,
        wanted: SignalSet,
        members: &Members,
        collector: &mut Collector,
        view: &mut View,
    ) -> Result<(), LinuxError> {
        if self.at.is_none_or(|at| view.now >= at + WINDOW) {
            self.follow_cpus(members, collector, view.now)?;
            let slowdown = view.machine.memory_slowdown.usable().unwrap_or(1.0);
            self.read(members, collector, view.now, slowdown)?;
        }
        for (slot, of) in self.workloads.iter().enumerate() {
            if members.slots.get(slot).is_none_or(Option::is_none) {
                continue;
            }
            let columns = &mut view.workloads;
            if wanted.contains(Signal::InstructionRate) {
                columns.instruction_rate[slot] = of.instructions;
            }
            if wanted.contains(Signal::CycleRate) {
                columns.cycle_rate[slot] = of.cycles;
            }
            if wanted.contains(Signal::LlcHitRatio) {
                columns.llc_hit_ratio[slot] = of.hit_ratio;
            }
            if wanted.contains(Signal::WorkloadBandwidth) {
                columns.memory_bandwidth[slot] = of.bandwidth;
            }
            if wanted.contains(Signal::BufferFullRate) {
                columns.buffer_full_rate[slot] = of.buffer_full;
            }
        }
        Ok(())
    }

    /// Opens counters on CPUs that came, and anew where readings failed; hands them to the collector.
    fn follow_cpus(&mut self, members: &Members, collector: &Collector, now: Nanos) -> Result<(), LinuxError> {
        let failed = collector.failed_readings();
        let again = failed > self.failed && now >= self.retry_at;
        if members.online == self.on && !again {
            return Ok(());
        }
        (self.failed, self.retry_at) = (failed, now + RETRY);
        let mut refusal: Option<io::Error> = None;
        self.open.resize_with(members.topology.columns().max(self.open.len()), Default::default);
        for cpu in members
            .online
            .union(&self.on)
            .iter()
            .filter(|cpu| again || members.online.contains(*cpu) != self.on.contains(*cpu))
        {
            let events = if members.online.contains(cpu) { self.counted_on(cpu) } else { Events::default() };
            for (at, event) in events.into_iter().enumerate() {
                let counter = event.map(|event| self.counters.open(event, cpu));
                let counter = counter.and_then(|result| result.map_err(|error| refusal = Some(error)).ok());
                collector.count_by(cpu, at, counter.as_ref().and_then(|counter| counter.descriptor()))?;
                self.open[cpu.index()][at] = counter;
            }
        }
        if let Some(error) = refusal
            && self.on != members.online
        {
            let Lack { why, fix } = Lack::of(&error);
            tracing::warn!(why, fix, "not every event is counted on every CPU");
        }
        self.on = members.online;
        Ok(())
    }

    fn read(
        &mut self,
        members: &Members,
        collector: &mut Collector,
        now: Nanos,
        slowdown: f64,
    ) -> Result<(), LinuxError> {
        let by_cycles = |cpu| self.counted_on(cpu)[FULL].is_some_and(counts_cycles);
        let in_cycles = self.counts_full && members.online.lowest().is_some_and(by_cycles);
        self.on.iter().for_each(|cpu| collector.settle(cpu));
        let failed = collector.failed_readings();
        let misses_some = failed > std::mem::replace(&mut self.failed_before, failed);
        let span = self.at.replace(now).map(|before| now - before);
        let times = collector.counter_times()?;
        let before = std::mem::replace(&mut self.times, times);
        let window: Window = std::array::from_fn(|event| Share::between(times[event], before[event], misses_some));
        self.workloads.resize_with(members.slots.len(), OfWorkload::default);
        let counted = collector.counted(members.slots.len().min(MAX_SLOTS))?;
        for (id, _) in members.workloads() {
            let of = &mut self.workloads[id.index()];
            let Some(&counts) = counted.get(id.index()) else { continue };
            let since = of.before.replace(counts);
            if let (Some(since), Some(span)) = (since, span) {
                let counts: Counts = std::array::from_fn(|event| counts[event] - since[event]);
                of.rates(counts, &window, now, span);
                let full = full::rate(&counts, &window, span, slowdown);
                let quality = if in_cycles { full.quality.min(Quality::Estimated) } else { full.quality };
                of.buffer_full = Sample { quality, ..Sample::over(full.value, now, span) };
            }
            if let Some(exact) = of.group.look(&members.roots, id, now) {
                of.bandwidth = exact;
            }
        }
        Ok(())
    }
}

impl OfWorkload {
    /// The rates of what was counted in a window.
    fn rates(&mut self, counts: Counts, window: &Window, at: Nanos, span: Nanos) {
        let count = |event: usize| counts[event] as f64 * window[event].times;
        let per_second = |event: usize| {
            let sample = Sample::over(count(event) / span.as_secs_f64(), at, span);
            Sample { quality: window[event].quality, ..sample }
        };
        (self.instructions, self.cycles) = (per_second(INSTRUCTIONS), per_second(CYCLES));
        let quality = window[REFERENCES].quality.min(window[MISSES].quality);
        self.hit_ratio = match count(REFERENCES) > 0.0 {
            true => {
                let ratio = (1.0 - count(MISSES) / count(REFERENCES)).clamp(0.0, 1.0);
                Sample { quality, ..Sample::over(ratio, at, span) }
            }
            // It did not run, or did not miss its own caches: the last ratio is old.
            false => Sample { quality: quality.min(Quality::Stale).min(self.hit_ratio.quality), ..self.hit_ratio },
        };
        let bandwidth = per_second(MISSES).map(|rate| BytesPerSecond(rate * LINE_BYTES));
        self.bandwidth = Sample { quality: bandwidth.quality.min(Quality::Estimated), ..bandwidth };
    }
}

impl Share {
    /// Of counters with these times. Where readings failed, some of what was to be counted is missing: nothing to act on.
    fn between(now: CounterTime, before: CounterTime, misses_some: bool) -> Share {
        let (enabled, running) = (now.enabled - before.enabled, now.running - before.running);
        let quality = match running == Nanos::ZERO {
            _ if now.enabled == Nanos::ZERO => Quality::Absent,
            _ if misses_some => Quality::Stale,
            // Other programs had the hardware all the time, or the counters began anew.
            true => Quality::Stale,
            false if running < enabled => Quality::Estimated,
            false => Quality::Exact,
        };
        let times = if running == Nanos::ZERO { 0.0 } else { enabled.0 as f64 / running.0 as f64 };
        Share { times, quality }
    }
}
