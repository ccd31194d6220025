//! Random mixes of the library's programs on a small machine: services with load steps, and best-effort work beside them. An
//! experiment of our own, for policies that verify what they do.

use quell_model::{CpuCount, Nanos, Slo, Topology};

use crate::contention::{Meters, ProfileName, library};
use crate::machine::Machine;
use crate::random::Stream;
use crate::workload::{Arrivals, Dispatch, ServerSpec, Service, Step};
use crate::{KernelConfig, SimError, SimHost, WorkloadSpec};

/// CPUs of the machine.
pub const CPUS: u32 = 8;
/// Services to choose among: those of the library whose requests take from 0.5 to 4 ms.
const SERVICES: [&str; 3] = ["img-dnn", "xapian", "apache"];
/// Best-effort work to choose among: of little, middling and much traffic.
const BATCH: [&str; 10] = [
    "computing",
    "swaptions",
    "bodytrack",
    "canneal",
    "streamcluster",
    "facesim",
    "SP",
    "lbm",
    "streaming",
    "stress-ng-memory",
];
/// A stream of random numbers that nothing else has.
const STREAM: u64 = 5 << 32;

/// A mix.
#[derive(Clone, Debug)]
pub struct Mix {
    /// The services, then the best-effort work.
    pub workloads: Vec<WorkloadSpec>,
    /// The number of services.
    pub services: usize,
    /// Can the cache be divided?
    pub has_ways: bool,
    /// Is the load halved at [`Mix::STEP`]?
    pub is_halved: bool,
    /// For whatever is random in the run.
    pub seed: u64,
}

impl Mix {
    /// Not counted at the beginning.
    pub const WARM_UP: Nanos = Nanos::from_secs(5);
    /// The time of the load's step.
    pub const STEP: Nanos = Nanos::from_secs(35);
    /// The end.
    pub const END: Nanos = Nanos::from_secs(60);

    /// The mix of this number: one to three services at 15 to 50 % of two CPUs each, two to six best-effort workloads of one
    /// or two threads.
    #[must_use]
    pub fn random(seed: u64, number: u64) -> Mix {
        let mut dice = Stream::new(seed, STREAM + number);
        let services = 1 + dice.below(3) as usize;
        let others = 2 + dice.below(5) as usize;
        let has_ways = dice.below(2) == 0;
        let is_halved = dice.below(2) == 0;
        let mut workloads: Vec<WorkloadSpec> = (0..services)
            .map(|at| {
                let name = SERVICES[dice.below(SERVICES.len() as u32) as usize];
                let load = 0.15 + 0.35 * dice.unit();
                service(&format!("{name}-{at}"), name, 2.0 * load, is_halved)
            })
            .collect();
        workloads.extend((0..others).map(|at| {
            let name = BATCH[dice.below(BATCH.len() as u32) as usize];
            batch(&format!("{name}-{at}"), name, 1 + dice.below(2))
        }));
        Mix { workloads, services, has_ways, is_halved, seed: seed * 10_000 + number }
    }

    /// The machine with the mix on it.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if it makes no sense.
    pub fn host(&self) -> Result<SimHost, SimError> {
        let mut machine = machine(Meters::default());
        machine.llc.is_divisible = self.has_ways;
        SimHost::new(machine, KernelConfig::default(), &self.workloads, self.seed, false)
    }
}

/// Eight cores on half of a server's cache and memory.
#[must_use]
pub fn machine(counters: Meters) -> Machine {
    let mut machine = Machine::from(Topology::synthetic(1, 1, CPUS, 1));
    machine.llc.bytes /= 2;
    machine.memory.bandwidth.0 /= 2.0;
    machine.contention.counters = counters;
    machine
}

fn known(name: &str) -> Option<ProfileName> {
    Some(ProfileName::Known(name.to_owned()))
}

/// A service of the library at so many CPUs' worth of requests, with an SLO of six mean service times.
#[must_use]
pub fn service(name: &str, of: &str, cpus: f64, is_halved: bool) -> WorkloadSpec {
    let mean = library::service(of).unwrap_or(Nanos::from_millis(1));
    let rate = cpus / mean.as_secs_f64();
    let steps = [(Nanos::ZERO, rate), (Mix::STEP, rate / if is_halved { 2.0 } else { 1.0 })];
    let arrivals = Arrivals::Steps(steps.map(|(at, rate)| Step { at, rate }).into());
    // As spread as the mean is long by a half.
    let service = Service::Lognormal { mean, sigma: libm::sqrt(libm::log(1.25)) };
    WorkloadSpec {
        threads: 4,
        server: Some(ServerSpec { arrivals, service, dispatch: Dispatch::Pool }),
        profile: known(of),
        pausable: true,
        slo: Some(Slo { quantile: 0.99, bound: Nanos(mean.0 * 6) }),
        ..WorkloadSpec::lc(name, CpuCount::whole(1))
    }
}

/// Busy threads of a program of the library.
#[must_use]
pub fn batch(name: &str, of: &str, threads: u32) -> WorkloadSpec {
    WorkloadSpec { profile: known(of), ..WorkloadSpec::be(name).busy(threads) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_the_same_each_time_and_of_programs_that_there_are() {
        for number in 0..50 {
            let mix = Mix::random(1, number);
            assert_eq!(format!("{mix:?}"), format!("{:?}", Mix::random(1, number)));
            assert!((1..=3).contains(&mix.services) && (3..=9).contains(&mix.workloads.len()));
            mix.host().unwrap();
        }
        assert_ne!(format!("{:?}", Mix::random(1, 0)), format!("{:?}", Mix::random(2, 0)));
    }
}
