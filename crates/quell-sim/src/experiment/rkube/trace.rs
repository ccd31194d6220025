//! Machines with the jobs of a trace (rkube-socc21 §6.5).
//!
//! The paper replays what Alibaba's trace of 2017 has on 50 of its machines. We have no trace, and draw machines with its
//! published statistics: 11,089 online services and 12,951 batch jobs on 1,300 machines in 12 hours (Lu et al., Imbalance
//! in the Cloud, IEEE Big Data 2017), so 8.5 services a machine. Its machines have 64 CPUs (Cheng et al., APSys 2018) and
//! the experiment's 38 for containers, which makes 5 services. How many CPUs they request and how many threads that gives
//! is assumed, and what batch jobs there are.

use quell_model::{Class, Nanos, Policy};

use super::target::{BATCH, Batch, SERVICE, memcached};
use super::{Span, container, observe, strict};
use crate::Stream;
use crate::experiment::assumed::assumed;
use crate::machine::Preset;
use crate::{SimError, WorkloadSpec};

/// CPUs for containers: "we reserve 2 cores for systems and the rest of 38 cores are used for containers".
const ALLOCATABLE: u32 = 38;
/// Services request no more than this together, so that batch jobs have room (assumed).
const MOST_OF_SERVICES: u32 = 28;

/// Requests a second of a service with this many threads: the part of what they can answer that is asked for on average (cpu_avg of
/// cpu_max; assumed, the text has no value). None: all that it answers.
fn pace(threads: u32) -> Option<u32> {
    let load = assumed("rkube.trace-load");
    (load < 1.0).then_some((load * f64::from(threads) * 1e9 / SERVICE.mean()) as u32)
}

/// What runs on one machine of the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Jobs {
    /// Online services, each a memcached: CPUs requested ("based on the values of plan_cpu"), and threads ("based on the
    /// values of cpu_avg and cpu_max").
    services: Vec<(u32, u32)>,
    /// Batch jobs.
    batch: Vec<Batch>,
}

/// How a machine's jobs fare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// Requests answered a second, all services together.
    pub rate: f64,
    /// Mean of the services' 99th percentiles.
    pub p99: Nanos,
    /// Batch jobs completed a second. All are of the same length.
    pub batch: f64,
}

impl Jobs {
    /// The jobs of machine number so and so.
    #[must_use]
    pub fn of_machine(number: u32) -> Jobs {
        let mut stream = Stream::new(u64::from(number), 0);
        let mut between = |from: u32, to: u32| from + stream.below(to - from + 1);
        let mut services = Vec::new();
        let mut requested = 0;
        for _ in 0..between(3, 7) {
            let cpus = between(2, 6);
            // The most that the service ever used, of what it requested: 30 to 100 % (assumed).
            let threads = (cpus * between(30, 100)).div_ceil(100);
            if requested + cpus <= MOST_OF_SERVICES {
                requested += cpus;
                services.push((cpus, threads));
            }
        }
        let mut batch = Vec::new();
        while requested < ALLOCATABLE {
            let program = BATCH[between(0, BATCH.len() as u32 - 1) as usize];
            // Batch jobs have twice as many threads as CPUs requested (assumed).
            let cpus = between(1, 4).min(ALLOCATABLE - requested);
            requested += cpus;
            let threads = 2 * cpus;
            let piece = program.round.0 / u64::from(program.threads);
            batch.push(Batch { threads, cpus, round: Nanos(piece * u64::from(threads)), ..program });
        }
        Jobs { services, batch }
    }

    /// The same with as many threads as CPUs requested in each service.
    #[must_use]
    pub fn with_full_services(self) -> Jobs {
        Jobs { services: self.services.into_iter().map(|(cpus, _)| (cpus, cpus)).collect(), ..self }
    }

    /// "Here the resource of the batch jobs are uncapped and not isolated by rKube".
    fn specs(&self) -> Vec<WorkloadSpec> {
        let services =
            self.services.iter().enumerate().map(|(at, &(cpus, threads))| {
                memcached(threads, pace(threads), strict(&format!("service-{at}"), cpus))
            });
        let batch = self.batch.iter().enumerate().map(|(at, batch)| {
            batch.in_container(container(&format!("{}-{at}", batch.name), Class::BestEffort, batch.cpus, false))
        });
        services.chain(batch).collect()
    }

    /// Runs them under a policy on the experiment's server.
    ///
    /// # Errors
    /// [`SimError::Scenario`] never.
    pub fn run<P: Policy>(&self, policy: &mut P, span: Span) -> Result<Served, SimError> {
        let machine = Preset::named("rkube-cloudlab").expect("the machine of this section").machine();
        let host = observe(machine, &self.specs(), policy, span)?;
        let stats = host.sim().stats();
        let (services, batch) = stats.split_at(self.services.len());
        let seconds = span.measured.as_secs_f64();
        let answered: u64 = services.iter().map(|stats| stats.latencies.count()).sum();
        let tails: u64 = services.iter().map(|stats| (stats.latencies.quantile(0.99) + super::OUTSIDE).0).sum();
        let jobs: u64 = batch.iter().map(|stats| stats.latencies.count()).sum();
        Ok(Served {
            rate: answered as f64 / seconds,
            p99: Nanos(tails / services.len().max(1) as u64),
            batch: jobs as f64 / seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_the_statistics_that_they_are_drawn_from() {
        let machines: Vec<Jobs> = (0..200).map(Jobs::of_machine).collect();
        for Jobs { services, batch } in &machines {
            let requested: u32 = services.iter().map(|(cpus, _)| cpus).sum();
            assert!(requested <= MOST_OF_SERVICES && services.iter().all(|(cpus, threads)| threads <= cpus));
            assert_eq!(
                requested + batch.iter().map(|batch| batch.cpus).sum::<u32>(),
                ALLOCATABLE,
                "no over-commitment"
            );
        }
        let services = machines.iter().map(|jobs| jobs.services.len()).sum::<usize>() as f64 / 200.0;
        assert!((services - 5.0).abs() < 0.3, "11,089 services on 1,300 machines of 64 CPUs, of 38 here: {services}");
        assert_ne!(machines[0], machines[1]);
        assert_eq!(machines[0], Jobs::of_machine(0));
    }
}
