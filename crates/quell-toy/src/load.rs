//! What a workload does: requests, threads, and what they ask of cache and memory.

use quell_model::{BytesPerSecond, Class, CpuCount, Nanos, Workload};

/// When requests arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// Never, except through [`crate::ToyHost::send`].
    #[default]
    None,
    /// There is always more to do than CPUs to do it.
    Endless,
    /// One in every such span.
    Every(Nanos),
    /// Poisson arrivals with this mean distance, from a seed.
    Poisson {
        /// Mean distance.
        mean: Nanos,
        /// Seed.
        seed: u64,
    },
}

/// How a workload uses the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheUse {
    /// Ways that hold its working set; zero: it does not reuse the cache.
    pub ways: f64,
    /// Hits per reference when the working set fits.
    pub hit_ratio: f64,
}

impl Default for CacheUse {
    fn default() -> CacheUse {
        CacheUse { ways: 0.0, hit_ratio: 0.5 }
    }
}

/// A workload with its behaviour.
#[derive(Clone, Debug, PartialEq)]
pub struct ToyWorkload {
    /// As its owner describes it.
    pub spec: Workload,
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// CPU time of a request on an undisturbed CPU.
    pub service: Nanos,
    /// The threads that share CPUs: how much of a CPU each wants, 0–1.
    pub threads: Vec<f64>,
    /// Memory bandwidth that each CPU's worth of running asks for.
    pub bandwidth: BytesPerSecond,
    /// How it uses the cache.
    pub cache: CacheUse,
}

impl ToyWorkload {
    /// A latency-critical workload without work.
    #[must_use]
    pub fn lc(name: &str, cpus: CpuCount) -> ToyWorkload {
        ToyWorkload::new(Workload::new(name, Class::LatencyCritical, cpus))
    }

    /// A best-effort workload without work.
    #[must_use]
    pub fn be(name: &str) -> ToyWorkload {
        ToyWorkload::new(Workload::new(name, Class::BestEffort, CpuCount::ZERO))
    }

    /// This workload without work.
    #[must_use]
    pub fn new(spec: Workload) -> ToyWorkload {
        ToyWorkload {
            spec,
            arrivals: Arrivals::None,
            service: Nanos::from_micros(10),
            threads: Vec::new(),
            bandwidth: BytesPerSecond(0.0),
            cache: CacheUse::default(),
        }
    }

    /// With requests of this service time.
    #[must_use]
    pub fn requests(self, arrivals: Arrivals, service: Nanos) -> ToyWorkload {
        ToyWorkload { arrivals, service, ..self }
    }

    /// With threads, each of which wants this part (0–1) of a CPU.
    #[must_use]
    pub fn threads(self, demands: &[f64]) -> ToyWorkload {
        ToyWorkload { threads: demands.to_vec(), ..self }
    }

    /// With this memory bandwidth for each CPU on which it runs.
    #[must_use]
    pub fn bandwidth(self, bytes_per_second: f64) -> ToyWorkload {
        ToyWorkload { bandwidth: BytesPerSecond(bytes_per_second), ..self }
    }

    /// With a working set of so many ways, and this hit ratio when it fits.
    #[must_use]
    pub fn cache(self, ways: f64, hit_ratio: f64) -> ToyWorkload {
        ToyWorkload { cache: CacheUse { ways, hit_ratio }, ..self }
    }
}
