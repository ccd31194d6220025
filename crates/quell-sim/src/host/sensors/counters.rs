//! Counters as policies see them: late, rounded in time, and noisy, as the scenario says.

use std::collections::VecDeque;

use quell_model::signal::Unit;
use quell_model::{
    BytesPerSecond, Capabilities, CpuSet, Event, Nanos, Refusal, Sample, SampleRequest, Signal, SignalSet, Support,
    Verdict, View, WorkloadId,
};

use super::Sensor;
use crate::Sim;
use crate::Stream;
use crate::contention::solve::Rates;
use crate::contention::{MeasuredOfMemory, Meter, Meters};
use crate::host::capabilities::no_contention;
use crate::host::members::Members;
use crate::math;

/// Counters' noise has a stream that no one else has.
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

/// A counter of workloads: the signal, how good it is, and what is divided by what of all that was counted in this many
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

/// The counters, where contention is modelled.
#[derive(Clone, Debug, Default)]
pub(in crate::host) struct Counters(Option<Box<Gauges>>);

/// All of them.
#[derive(Clone, Debug)]
struct Gauges {
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
    fn new(sim: &Sim) -> Gauges {
        let (workloads, cpus) = (sim.tenants.len(), sim.kernel.cpus.len());
        Gauges {
            meters: sim.machine.contention.counters,
            noise: Stream::new(sim.seed, STREAM),
            bus: Gauge::default(),
            slowdown: Gauge::default(),
            workloads: vec![Default::default(); workloads],
            sampling: Vec::new(),
            misses: vec![(0.0, 0.0); cpus],
            sampled: vec![Sample::default(); cpus],
        }
    }
}

impl Counters {
    /// Those of this machine.
    pub fn of(sim: &Sim) -> Counters {
        Counters(sim.has_contention().then(|| Box::new(Gauges::new(sim))))
    }

    /// When a sample that was asked for is there.
    pub fn next_sample(&self) -> Nanos {
        let sampling = self.0.iter().flat_map(|gauges| &gauges.sampling);
        sampling.map(|&(at, _)| at).min().unwrap_or(Nanos::MAX)
    }

    /// Samples are asked for.
    pub fn ask(&mut self, request: &SampleRequest, sim: &Sim) -> Verdict {
        if sim.measured_of_memory() != MeasuredOfMemory::Everything {
            let why = "no workload of this scenario has a profile, contention is off, or there are no counters".into();
            return Verdict::Refused(Refusal::Unsupported(why));
        }
        if let Some(gauges) = self.0.as_mut().filter(|_| request.signals.contains(Signal::LlcMisses)) {
            gauges.sampling.push((sim.now() + gauges.meters.misses.late, request.cpus));
        }
        Verdict::Applied(sim.now())
    }

    /// Takes the samples that are due; says that each is there.
    pub fn take_samples(&mut self, sim: &Sim, events: &mut Vec<Event>) {
        let now = sim.now();
        let Some(gauges) = self.0.as_deref_mut() else { return };
        while let Some(at) = gauges.sampling.iter().position(|&(at, _)| at <= now) {
            let (_, cpus) = gauges.sampling.remove(at);
            let columns = gauges.sampled.len();
            for cpu in cpus.iter().filter(|cpu| cpu.index() < columns) {
                let exact = sim.counted_on(cpu).misses;
                let (before, said) = &mut gauges.misses[cpu.index()];
                let sigma = gauges.meters.misses.noise;
                let factor = if sigma > 0.0 { (1.0 + sigma * gauges.noise.normal()).max(0.0) } else { 1.0 };
                *said += (exact - *before) * factor;
                *before = exact;
                gauges.sampled[cpu.index()] = Sample::exact(*said as u64, now);
            }
            events.push(Event::SamplesReady);
        }
    }
}

impl Sensor for Counters {
    fn report(&self, of_memory: MeasuredOfMemory, found: &mut Capabilities) {
        let no_counters = || Support::No {
            why: "this scenario's machine has no counters".into(),
            fix: "choose other `contention.counters`".into(),
        };
        let counted = COUNTERS.map(|(signal, ..)| signal);
        for signal in counted.into_iter().chain([Signal::LlcMisses, Signal::MemoryBandwidth, Signal::MemorySlowdown]) {
            let support = match of_memory {
                MeasuredOfMemory::Nothing => no_contention(),
                MeasuredOfMemory::Slowdown if signal != Signal::MemorySlowdown => no_counters(),
                _ => Support::Yes,
            };
            found.signals.insert(signal, support);
        }
        for signal in Signal::DECISIONS {
            let why = "the simulated Quell class does not count its decisions".into();
            found.signals.insert(signal, Support::No { why, fix: "use Quell's scheduler on a real machine".into() });
        }
    }

    fn admit(&mut self, id: WorkloadId, sim: &mut Sim) {
        if !sim.has_contention() {
            return;
        }
        let gauges = self.0.get_or_insert_with(|| Box::new(Gauges::new(sim)));
        let (counted, now) = (sim.counted_by_tenant(), sim.now());
        gauges.workloads.resize_with(gauges.workloads.len().max(id.index() + 1), Default::default);
        for (gauge, (_, _, counts)) in gauges.workloads[id.index()].iter_mut().zip(COUNTERS) {
            let before = counts(&counted[id.index()], now.as_secs_f64());
            *gauge = Gauge { before, looked: now, ..Gauge::default() };
        }
    }

    fn observe(&mut self, wanted: SignalSet, members: &Members, sim: &mut Sim, view: &mut View) {
        let columns = &mut view.workloads;
        let of_memory = sim.measured_of_memory();
        let Some(gauges) = self.0.as_deref_mut() else { return };
        let Gauges { meters, noise, bus, slowdown, workloads, sampled, .. } = gauges;
        let now = view.now;
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
        for (id, _) in members.each() {
            let (slot, done) = (id.index(), &counted[id.index()]);
            for (gauge, (signal, meter, counts)) in workloads[slot].iter_mut().zip(COUNTERS) {
                if wanted.contains(signal) {
                    let sample = gauge.look(meter(meters), counts(done, seconds), now, noise);
                    let most = if signal.info().unit == Unit::Ratio { 1.0 } else { f64::INFINITY };
                    columns.put(signal, slot, sample.map(|value| value.min(most)));
                }
            }
        }
    }
}
