//! The usual workloads in a line, for tests and examples.

use quell_model::{Class, CpuCount, Nanos};

use super::body::{BatchSpec, Dispatch, PeriodicSpec, ServerSpec};
use super::spec::WorkloadSpec;
use crate::arrivals::{Arrivals, Step};
use crate::service::Service;

/// The period of [`WorkloadSpec::using`].
const PERIOD: Nanos = Nanos::from_millis(5);

impl Arrivals {
    /// None, until demand changes or requests are sent.
    #[must_use]
    pub fn none() -> Arrivals {
        Arrivals::Steps(vec![Step { at: Nanos::ZERO, rate: 0.0 }])
    }
}

impl WorkloadSpec {
    /// A latency-critical workload that requests this many CPUs.
    #[must_use]
    pub fn lc(name: impl Into<String>, cpus: CpuCount) -> WorkloadSpec {
        WorkloadSpec { cpus, ..WorkloadSpec::new(name, Class::LatencyCritical) }
    }

    /// A best-effort workload.
    #[must_use]
    pub fn be(name: impl Into<String>) -> WorkloadSpec {
        WorkloadSpec::new(name, Class::BestEffort)
    }

    /// This many threads with one queue of requests, each of which takes this CPU time.
    #[must_use]
    pub fn serving(self, threads: u32, arrivals: Arrivals, service: Nanos) -> WorkloadSpec {
        let server = ServerSpec { arrivals, service: Service::Constant(service), dispatch: Dispatch::Pool };
        WorkloadSpec { threads, server: Some(server), ..self }
    }

    /// This many threads with work without end.
    #[must_use]
    pub fn busy(self, threads: u32) -> WorkloadSpec {
        WorkloadSpec { threads, batch: Some(BatchSpec::default()), ..self }
    }

    /// This many threads, each of which wants this part (0–1) of a CPU, every 5 ms anew.
    #[must_use]
    pub fn using(self, threads: u32, demand: f64) -> WorkloadSpec {
        let periodic = PeriodicSpec {
            period: PERIOD,
            work: Service::Constant(PERIOD.scaled(demand).max(Nanos(1))),
            offset: Nanos::ZERO,
            stagger: Nanos::ZERO,
            later: None,
            deadline: None,
        };
        WorkloadSpec { threads, periodic: Some(periodic), ..self }
    }
}
