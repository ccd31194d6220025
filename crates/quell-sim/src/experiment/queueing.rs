//! Simulated queues, and what theory says about them. The simulated kernel costs nothing here, so that what is left is
//! queueing. Latencies are in mean service times.

use quell_model::{Class, Nanos, SchedClass, Topology};

use super::theory;
use crate::math;
use crate::workload::{Arrivals, Dispatch, Latencies, ServerSpec, Service};
use crate::{KernelConfig, Sim, SimError, WorkloadSpec};

/// The mean service time.
const SERVICE: Nanos = Nanos::from_millis(1);
/// M/G/1's service time is one of two, in mean service times: short, long, share of the long.
const BIMODAL: (f64, f64, f64) = (0.5, 5.5, 0.1);
/// Processor sharing is the limit of slices that are short against the service time. Slices of this length, and service
/// times from 0 to 2 ms, all equally likely, shorten the mean by some tenths of a percent.
const SLICE: Nanos = Nanos::from_micros(25);
/// This many requests can share the processor; at a load of 0.95, one in 10⁹ finds as many.
const SHARING: u32 = 400;

/// Independent simulations of one queue, to be run side by side.
pub const PARTS: u32 = 5;
/// Batches of each, in which means are taken.
pub const BATCHES: u32 = 8;
/// Student's t with 39 degrees of freedom: 95 % lie between it and its negative.
const STUDENT: f64 = 2.023;

/// A queue with Poisson arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Exponential service times, this many servers.
    MMk(u32),
    /// Constant service times, one server.
    MD1,
    /// Bimodal service times, one server.
    MG1,
    /// Uniform service times, one processor that all share.
    ProcessorSharing,
}

/// What one queue of one load showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Half the width of its 99 % interval, from the means of batches.
    pub half_width: f64,
}

/// One simulation's part of the evidence.
#[derive(Clone, Debug)]
pub struct Part {
    all: Latencies,
    means: Vec<f64>,
    p99s: Vec<f64>,
}

impl Queue {
    /// Mean latency by theory, at this load of each server.
    #[must_use]
    pub fn mean(self, load: f64) -> f64 {
        let (short, long, share) = BIMODAL;
        match self {
            Queue::MMk(servers) => theory::mmk_mean(servers, load),
            Queue::MD1 => theory::mg1_mean(load, 1.0),
            Queue::MG1 => theory::mg1_mean(load, (1.0 - share) * short * short + share * long * long),
            Queue::ProcessorSharing => theory::processor_sharing_mean(load),
        }
    }

    /// The 99th percentile of latency by theory, where there is a closed form.
    #[must_use]
    pub fn p99(self, load: f64) -> Option<f64> {
        match self {
            Queue::MMk(servers) => Some(theory::mmk_quantile(servers, load, 0.99)),
            Queue::MD1 => Some(theory::md1_quantile(load, 0.99)),
            Queue::MG1 | Queue::ProcessorSharing => None,
        }
    }

    fn servers(self) -> u32 {
        if let Queue::MMk(servers) = self { servers } else { 1 }
    }

    /// The queue on a simulated machine.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if the load makes no sense.
    pub fn sim(self, load: f64, seed: u64) -> Result<Sim, SimError> {
        let (short, long, long_share) = BIMODAL;
        let of_mean = |times: f64| Nanos(math::nanos(times * SERVICE.0 as f64));
        let bimodal = || Service::Bimodal { short: of_mean(short), long: of_mean(long), long_share };
        // Requests are served in their order: whatever else a kernel does is not in the formulas.
        let mut config = KernelConfig::plain();
        let arrivals = Arrivals::Poisson(load * f64::from(self.servers()) / SERVICE.as_secs_f64());
        let server = |service| Some(ServerSpec { arrivals, service, dispatch: Dispatch::Pool });
        // First come, first served: nothing but the order of requests decides.
        let fifo = SchedClass::Fifo { priority: 1 };
        let spec = WorkloadSpec::new("queue", Class::LatencyCritical);
        let spec = match self {
            Queue::MMk(threads) => {
                WorkloadSpec { threads, scheduling: fifo, server: server(Service::Exponential(SERVICE)), ..spec }
            }
            Queue::MD1 => WorkloadSpec { scheduling: fifo, server: server(Service::Constant(SERVICE)), ..spec },
            Queue::MG1 => WorkloadSpec { scheduling: fifo, server: server(bimodal()), ..spec },
            Queue::ProcessorSharing => {
                (config.tick, config.base_slice) = (SLICE, Some(SLICE));
                let service = Service::Uniform { from: Nanos::ZERO, to: SERVICE + SERVICE };
                WorkloadSpec { threads: SHARING, server: server(service), ..spec }
            }
        };
        let mut sim = Sim::new(Topology::synthetic(1, 1, self.servers(), 1), config, &[spec], seed)?;
        sim.begin();
        Ok(sim)
    }

    /// One of [`PARTS`] simulations (counted from 0) of `requests` requests together. Their seeds differ; a tenth of
    /// each is warm-up.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if the load makes no sense.
    pub fn run(self, load: f64, part: u32, requests: u64) -> Result<Part, SimError> {
        let mut sim = self.sim(load, u64::from(part) + 1)?;
        let own = requests as f64 / f64::from(PARTS) / (load * f64::from(self.servers()));
        let span = own * SERVICE.0 as f64;
        let until = |share: f64| Nanos(math::nanos(span * share));
        sim.run_until(until(0.1));
        let mut seen = Part { all: Latencies::default(), means: Vec::new(), p99s: Vec::new() };
        for batch in 1..=BATCHES {
            sim.end_warm_up();
            sim.run_until(until(0.1 + f64::from(batch) / f64::from(BATCHES)));
            let latencies = &sim.stats()[0].latencies;
            seen.means.push(in_services(latencies.mean()));
            seen.p99s.push(in_services(latencies.quantile(0.99)));
            seen.all.merge(latencies);
        }
        Ok(seen)
    }
}

fn in_services(time: Nanos) -> f64 {
    time.0 as f64 / SERVICE.0 as f64
}

/// The mean latency over all [`PARTS`].
#[must_use]
pub fn mean(parts: &[Part]) -> Estimate {
    Estimate { value: in_services(all(parts).mean()), half_width: half_width(parts, |part| &part.means) }
}

/// The 99th percentile of latency over all [`PARTS`].
#[must_use]
pub fn p99(parts: &[Part]) -> Estimate {
    Estimate { value: in_services(all(parts).quantile(0.99)), half_width: half_width(parts, |part| &part.p99s) }
}

/// How many requests were counted.
#[must_use]
pub fn count(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.all.count()).sum()
}

fn all(parts: &[Part]) -> Latencies {
    let mut all = Latencies::default();
    parts.iter().for_each(|part| all.merge(&part.all));
    all
}

fn half_width(parts: &[Part], of: impl Fn(&Part) -> &Vec<f64>) -> f64 {
    let values: Vec<f64> = parts.iter().flat_map(|part| of(part).iter().copied()).collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    STUDENT * math::sqrt(squares / (count - 1.0) / count)
}
