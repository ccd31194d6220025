//! Counters as policies see them: late, rounded in time, and noisy, as the scenario says.

use std::collections::VecDeque;

use quell_model::signal::Unit;
use quell_model::{BytesPerSecond, CpuSet, Event, Nanos, Sample, Signal, SignalSet, View, WorkloadId};

use super::SimHost;
use crate::contention::solve::Rates;
use crate::contention::{MeasuredOfMemory, Meter, Meters};
use crate::math;
use crate::random::Stream;

/// Counters' noise has a stream that nobody else has.
const STREAM: u64 = 3 << 32;

/// A counter and what was seen of it.
#[derive(Clone, Debug, Default)]
struct Gauge {
    /// What it counted up to the last look, and when that was.
    before: (f64, f64),
    looked: Nanos,
    settled: Option<f64>,
    /// What was measured and is not seen yet.
    on_the_way: VecDeque<Sample<f64>>,
    seen: Sample<f64>,
}

impl Gauge {
    /// Looks: what one counter counted for each of the other since the last look.
    fn look(&mut self, meter: &Meter, count: (f64, f64), now: Nanos, noise: &mut Stream) -> Sample<f64> {
        let span = now - self.looked;
        let per = count.1 - self.before.1;
        if span > Nanos::ZERO && span >= meter.every && per > 0.0 {
            let value = (count.0 - self.before.0) / per;
            let part = match meter.settles.0 {
                0 => 1.0,
                // Three time constants are 95 %.
                settles => 1.0 - math::exp(-3.0 * span.0 as f64 / settles as f64),
            };
            let settled = self.settled.map_or(value, |before| before + part * (value - before));
            let factor = if meter.noise > 0.0 { (1.0 + meter.noise * noise.normal()).max(0.0) } else { 1.0 };
            self.settled = Some(settled);
            self.on_the_way.push_back(Sample::over(settled * factor, now, span));
            (self.before, self.looked) = (count, now);
        }
        while self.on_the_way.front().is_some_and(|sample| sample.at + meter.late <= now) {
            self.seen = self.on_the_way.pop_front().unwrap_or_default();
        }
        self.seen
    }
}

/// A counter of workloads: the signal, how good it is, and what is divided by what of all that was counted in so many
/// seconds.
type Counter = (Signal, fn(&Meters) -> &Meter, fn(&Rates, f64) -> (f64, f64));

/// The counters of workloads.
const COUNTERS: [Counter; 5] = [
    (Signal::LlcHitRatio, |meters| &meters.llc, |done, _| (done.references - done.misses, done.references)),
    (Signal::WorkloadBandwidth, |meters| &meters.bandwidth, |done, seconds| (done.bytes, seconds)),
    (Signal::InstructionRate, |meters| &meters.instructions, |done, seconds| (done.instructions, seconds)),
    (Signal::CycleRate, |meters| &meters.instructions, |done, seconds| (done.cycles, seconds)),
    (Signal::BufferFullRate, |meters| &meters.instructions, |done, seconds| (done.buffer_full, seconds)),
];

/// Is it there only where contention is modelled and counters are?
pub(super) fn is_counted(signal: Signal) -> bool {
    let of_others = [Signal::LlcMisses, Signal::MemoryBandwidth];
    of_others.contains(&signal) || COUNTERS.iter().any(|&(counted, ..)| counted == signal)
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Gauges {
    meters: Meters,
    noise: Stream,
    bus: Gauge,
    slowdown: Gauge,
    /// By workload.
    workloads: Vec<[Gauge; COUNTERS.len()]>,
    /// Samples of these CPUs are asked for, until then.
    sampling: Vec<(Nanos, CpuSet)>,
    /// By CPU: misses that were counted, and those that were said.
    misses: Vec<(f64, f64)>,
    sampled: Vec<Sample<u64>>,
}

impl Gauges {
    pub fn new(meters: Meters, seed: u64, workloads: usize, cpus: usize) -> Gauges {
        Gauges {
            meters,
            noise: Stream::new(seed, STREAM),
            bus: Gauge::default(),
            slowdown: Gauge::default(),
            workloads: vec![Default::default(); workloads],
            sampling: Vec::new(),
            misses: vec![(0.0, 0.0); cpus],
            sampled: vec![Sample::default(); cpus],
        }
    }
}

impl Gauges {
    /// A workload comes: what is counted of its slot counts from now on.
    pub fn admit(&mut self, id: WorkloadId, counted: &Rates, now: Nanos) {
        self.workloads.resize_with(self.workloads.len().max(id.index() + 1), Default::default);
        for (gauge, (_, _, counts)) in self.workloads[id.index()].iter_mut().zip(COUNTERS) {
            *gauge = Gauge { before: counts(counted, now.as_secs_f64()), looked: now, ..Gauge::default() };
        }
    }
}

impl SimHost {
    /// When a sample that was asked for is there.
    pub(super) fn next_sample(&self) -> Nanos {
        let sampling = self.gauges.iter().flat_map(|gauges| &gauges.sampling);
        sampling.map(|&(at, _)| at).min().unwrap_or(Nanos::MAX)
    }

    /// Samples of LLC misses are asked for.
    pub(super) fn sample(&mut self, cpus: CpuSet) {
        let now = self.sim.now();
        if let Some(gauges) = &mut self.gauges {
            gauges.sampling.push((now + gauges.meters.misses.late, cpus));
        }
        self.take_samples();
    }

    /// Takes the samples that are due.
    pub(super) fn take_samples(&mut self) {
        let now = self.sim.now();
        let Some(gauges) = self.gauges.as_deref_mut() else { return };
        while let Some(at) = gauges.sampling.iter().position(|&(at, _)| at <= now) {
            let (_, cpus) = gauges.sampling.remove(at);
            let columns = gauges.sampled.len();
            for cpu in cpus.iter().filter(|cpu| cpu.index() < columns) {
                let exact = self.sim.counted_on(cpu).misses;
                let (before, said) = &mut gauges.misses[cpu.index()];
                let sigma = gauges.meters.misses.noise;
                let factor = if sigma > 0.0 { (1.0 + sigma * gauges.noise.normal()).max(0.0) } else { 1.0 };
                *said += (exact - *before) * factor;
                *before = exact;
                gauges.sampled[cpu.index()] = Sample::exact(*said as u64, now);
            }
            self.happened.push(Event::SamplesReady);
        }
    }

    /// Fills the columns that counters have.
    pub(super) fn fill_counters(&mut self, wanted: SignalSet, view: &mut View) {
        let columns = &mut view.workloads;
        let of_memory = self.sim.measured_of_memory();
        let Some(gauges) = self.gauges.as_deref_mut() else { return };
        let Gauges { meters, noise, bus, slowdown, workloads, sampled, .. } = gauges;
        let (sim, now) = (&self.sim, view.now);
        let seconds = now.as_secs_f64();
        if wanted.contains(Signal::MemorySlowdown) {
            view.machine.memory_slowdown =
                slowdown.look(&meters.slowdown, (sim.memory_stretched_seconds(), seconds), now, noise);
        }
        if of_memory != MeasuredOfMemory::Everything {
            return;
        }
        if wanted.contains(Signal::MemoryBandwidth) {
            view.machine.memory_bandwidth =
                bus.look(&meters.bus, (sim.memory_bytes(), seconds), now, noise).map(BytesPerSecond);
        }
        if wanted.contains(Signal::LlcMisses) {
            view.cpus.llc_misses.extend_from_slice(sampled);
        }
        if !COUNTERS.iter().any(|&(signal, ..)| wanted.contains(signal)) {
            return;
        }
        let counted = sim.counted_by_tenant();
        for (slot, (gauges, done)) in workloads.iter_mut().zip(counted).enumerate() {
            if !self.members.has(WorkloadId(slot as u32)) {
                continue;
            }
            for (gauge, (signal, meter, counts)) in gauges.iter_mut().zip(COUNTERS) {
                if wanted.contains(signal) {
                    let sample = gauge.look(meter(meters), counts(&done, seconds), now, noise);
                    let most = if signal.info().unit == Unit::Ratio { 1.0 } else { f64::INFINITY };
                    columns.put(signal, slot, sample.map(|value| value.min(most)));
                }
            }
        }
    }
}
