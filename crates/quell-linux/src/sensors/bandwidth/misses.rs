//! Misses of the last-level cache, by CPU.

use std::io;

use perf_event_open_sys::bindings::{PERF_COUNT_HW_CACHE_MISSES, PERF_TYPE_HARDWARE};
use quell_model::{CpuId, CpuSet, Nanos, Quality, Sample};

use super::Rate;
use crate::clock;
use crate::perf::{Counters, Event, LINE_BYTES, Meter};

/// The kernel's event for cache misses, of the level that this kind of CPU counts.
pub(crate) const CACHE_MISSES: Event =
    Event { kind: PERF_TYPE_HARDWARE, config: [PERF_COUNT_HW_CACHE_MISSES as u64, 0, 0] };

/// One CPU's.
#[derive(Debug)]
struct OfCpu {
    meter: Meter,
    /// Since the first look, as it would be had the counter had the hardware all the time.
    total: f64,
    /// Reliability of the last reading.
    quality: Quality,
}

/// Those of all CPUs.
#[derive(Debug)]
pub(super) struct Misses {
    /// By CPU, as `samples`.
    cpus: Vec<OfCpu>,
    samples: Vec<Sample<u64>>,
    /// Time of the last reading of the machine's traffic, and all misses until then.
    before: Option<(Nanos, f64)>,
}

impl Misses {
    /// Begins to count on the CPUs below this number. One that cannot be counted on now may be so later.
    pub fn open(columns: usize, counters: &dyn Counters) -> io::Result<Misses> {
        let (mut cpus, mut refusal) = (Vec::new(), None);
        for cpu in (0..columns as u32).map(CpuId) {
            let meter = Meter::open(CACHE_MISSES, cpu, clock::now(), counters);
            let meter = meter.map_err(|error| _ = refusal.get_or_insert(error)).ok();
            cpus.push((cpu, meter));
        }
        match refusal {
            Some(error) if cpus.iter().all(|(_, meter)| meter.is_none()) => return Err(error),
            _ => {}
        }
        let of_cpu = |(cpu, meter): (CpuId, Option<Meter>)| {
            let meter = meter.unwrap_or_else(|| Meter::closed(CACHE_MISSES, cpu));
            OfCpu { meter, total: 0.0, quality: Quality::Absent }
        };
        let cpus = cpus.into_iter().map(of_cpu).collect();
        Ok(Misses { cpus, samples: vec![Sample::default(); columns], before: None })
    }

    /// The last requested samples.
    pub fn samples(&self) -> &[Sample<u64>] {
        &self.samples
    }

    /// Reads the counters of these CPUs.
    pub fn sample(&mut self, cpus: &CpuSet, counters: &dyn Counters) {
        for cpu in cpus.iter() {
            let Some(of) = self.cpus.get_mut(cpu.index()) else { continue };
            of.look(counters);
            let sample = Sample::exact(of.total as u64, clock::now());
            self.samples[cpu.index()] = Sample { quality: of.quality, ..sample };
        }
    }

    /// The memory traffic that the misses of all CPUs since the last look make, a cache line each.
    pub fn traffic(&mut self, counters: &dyn Counters) -> Rate {
        let mut sum = Rate { misses_some: true, is_early: true, ..Rate::default() };
        self.cpus.iter_mut().for_each(|of| of.look(counters));
        sum.is_there = self.cpus.iter().any(|of| of.quality > Quality::Absent);
        let (now, total) = (clock::now(), self.cpus.iter().map(|of| of.total).sum());
        if let Some((before, had)) = self.before.replace((now, total))
            && now > before
        {
            sum.is_early = false;
            sum.bytes_per_second = (total - had) * LINE_BYTES / (now - before).as_secs_f64();
        }
        sum
    }
}

impl OfCpu {
    fn look(&mut self, counters: &dyn Counters) {
        self.quality = match self.meter.look(clock::now(), counters) {
            None => Quality::Absent,
            Some(counted) if counted.running == Nanos::ZERO => Quality::Stale,
            Some(counted) => {
                self.total += counted.whole();
                if counted.running < counted.enabled { Quality::Estimated } else { Quality::Exact }
            }
        };
    }
}
