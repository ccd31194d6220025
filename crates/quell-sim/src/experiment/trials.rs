//! Random mixes of the library's programs on a small machine: services with load steps, and best-effort work beside them. An
//! experiment of our own, for policies that verify what they do.

use quell_model::{CpuCount, Nanos, Slo, Topology, WorkloadId};

use crate::Stream;
use crate::contention::{Meters, ProfileName, library};
use crate::experiment::usual::usual_kernel;
use crate::machine::Machine;
use crate::workload::{Arrivals, Dispatch, ServerSpec, Service, Step};
use crate::{SimError, SimHost, WorkloadSpec};

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
/// Bytes a second of a small board's memory: one channel of 64 bits at 1066 million transfers a second. (Assumed: on half of a
/// server's 68 GB/s one thread that streams, and that is all the CPUs that a division by nine leaves it, slows memory by nothing
/// that a canary feels: 1.00 times; here it is 1.24.)
const BOARD: f64 = 8.5e9;
/// Another one, of mixes with an aggressor.
const AGGRESSORS: u64 = 6 << 32;
/// Best-effort work that moves hardly anything.
const QUIET: [&str; 3] = ["computing", "swaptions", "bodytrack"];

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
    /// Is it a board without counters, and with `BOARD` for all memory?
    pub is_board: bool,
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
        Mix { workloads, services, has_ways, is_halved, is_board: false, seed: seed * 10_000 + number }
    }

    /// A service and two to eight best-effort workloads that move hardly anything, on a machine without counters; one of them
    /// streams instead, if one is to: that one, too.
    #[must_use]
    pub fn with_aggressor(seed: u64, number: u64, streams: bool) -> (Mix, Option<WorkloadId>) {
        let mut dice = Stream::new(seed, AGGRESSORS + number);
        let others = 2 + dice.below(7);
        let aggressor = dice.below(others);
        let name = SERVICES[dice.below(SERVICES.len() as u32) as usize];
        let mut workloads = vec![service(&format!("{name}-0"), name, 0.3 + 0.7 * dice.unit(), false)];
        workloads.extend((0..others).map(|at| {
            let of = QUIET[dice.below(QUIET.len() as u32) as usize];
            let of = if streams && at == aggressor { "streaming" } else { of };
            batch(&format!("{of}-{at}"), of, 1)
        }));
        let mix = Mix {
            workloads,
            services: 1,
            has_ways: false,
            is_halved: false,
            is_board: true,
            seed: seed * 10_000 + number,
        };
        (mix, streams.then(|| WorkloadId(1 + aggressor)))
    }

    /// The machine with the mix on it.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if it makes no sense.
    pub fn host(&self) -> Result<SimHost, SimError> {
        let counters = if self.is_board { "canary" } else { "exact" };
        let mut machine = machine(Meters::named(counters).unwrap_or_default());
        if self.is_board {
            machine.memory.bandwidth.0 = BOARD;
        }
        machine.llc.is_divisible = self.has_ways;
        SimHost::new(machine, usual_kernel(), &self.workloads, self.seed, false)
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

/// A service of the library at this many CPUs' worth of requests, with an SLO of six mean service times.
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
