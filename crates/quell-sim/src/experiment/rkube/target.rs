//! The targets of Table 1.

use quell_model::Nanos;

use super::{known, strict};
use crate::WorkloadSpec;
use crate::experiment::assumed::micros;
use crate::workload::{ClosedSpec, Dispatch, ParallelSpec, Service};

/// A target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A batch program.
    Batch(Batch),
    /// Memcached, asked by YCSB for this many requests a second, or for as many as it answers. "We gradually increase the
    /// throughput (requests per second or rps) by 1000 until it is fully saturated" (§3.1.3).
    Memcached(Option<u32>),
}

/// Memcached, saturated.
pub const MEMCACHED: Target = Target::Memcached(None);

/// A batch program: threads that meet at barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Batch {
    /// Its name, and its profile's.
    pub name: &'static str,
    /// Its threads.
    pub threads: u32,
    /// CPUs that it requests, and may use at most.
    pub cpus: u32,
    /// CPU time of all threads together between two barriers.
    pub round: Nanos,
}

/// The batch targets of Table 1. The distances of barriers are of the order that PARSEC's counts of them give (Bienia et
/// al., PACT 2008: bodytrack 619 and streamcluster 129,584 in all threads with the large simulation input; fluidanimate
/// has eight a frame), with the native inputs' longer rounds; those of ocean_cp and volrend are assumed.
pub const BATCH: [Batch; 5] = [
    batch("bodytrack", 6, Nanos::from_millis(12)),
    batch("fluidanimate", 8, Nanos::from_millis(15)),
    batch("streamcluster", 12, Nanos::from_millis(1)),
    batch("ocean_cp", 8, Nanos::from_millis(5)),
    batch("volrend", 4, Nanos::from_millis(20)),
];

/// As Table 1 has it: as many CPUs as threads. `piece`: the CPU time of one thread between two barriers.
const fn batch(name: &'static str, threads: u32, piece: Nanos) -> Batch {
    Batch { name, threads, cpus: threads, round: Nanos(piece.0 * threads as u64) }
}

/// Those that use PARSEC's own barrier, which spins for no more than 0.1 ms before it sleeps (`parsec_barrier.cpp`,
/// `SPIN_COUNTER_MAX`); that it was built to spin is assumed.
const SPINNING: [&str; 2] = ["streamcluster", "fluidanimate"];

/// A thread's pieces of work differ by so much: up to a tenth more or less than their mean (assumed).
const SPREAD: u64 = 10;

/// The CPU time of what counts as one job of a batch program, all threads together: short, so that the mean of many is
/// known after seconds. The paper's programs take 60 s alone (§3.1.3), which is many such jobs one after the other.
const JOB: Nanos = Nanos::from_millis(600);

/// Memcached's CPUs and threads (Table 1).
const MEMCACHED_CPUS: u32 = 4;
/// YCSB's threads, each with a connection of its own (assumed; the paper does not say).
const CLIENTS: u32 = 32;
/// Memcached's CPU time of a request, with the kernel's network, chosen so that it is saturated at 85k requests a second
/// alone (§3.2): 4 CPUs over that, less what switches cost. That requests differ exponentially is assumed.
pub(super) const SERVICE: Service = Service::Exponential(Nanos(46_000));
/// What a client sees beside the server's latency, on the network and in YCSB, chosen so that p99 is 383 μs alone at 37k
/// requests a second (§3.2).
pub const OUTSIDE: Nanos = Nanos::from_micros(140);

impl Batch {
    /// The program as a workload without a container.
    pub(super) fn in_container(self, container: WorkloadSpec) -> WorkloadSpec {
        let piece = self.round.0 / u64::from(self.threads);
        let work = Service::Uniform { from: Nanos(piece - piece / SPREAD), to: Nanos(piece + piece / SPREAD) };
        let rounds = (JOB.0 / self.round.0).max(1) as u32;
        let spin = if SPINNING.contains(&self.name) { micros("rkube.barrier-spin") } else { Nanos::ZERO };
        let parallel = Some(ParallelSpec { spin, ..ParallelSpec::new(rounds, work) });
        WorkloadSpec { threads: self.threads, parallel, profile: Some(known(self.name)), ..container }
    }
}

/// Memcached with this many threads and clients.
pub(super) fn memcached(threads: u32, pace: Option<u32>, container: WorkloadSpec) -> WorkloadSpec {
    let closed = Some(ClosedSpec {
        clients: CLIENTS * threads / MEMCACHED_CPUS,
        think: Service::Constant(OUTSIDE),
        pace: pace.map(f64::from),
        service: SERVICE,
        dispatch: Dispatch::PerThread,
    });
    WorkloadSpec { threads, closed, profile: Some(known("memcached")), ..container }
}

impl Target {
    /// CPUs that it requests.
    #[must_use]
    pub fn cpus(self) -> u32 {
        match self {
            Target::Batch(batch) => batch.cpus,
            Target::Memcached(_) => MEMCACHED_CPUS,
        }
    }

    pub(super) fn spec(self) -> WorkloadSpec {
        match self {
            Target::Batch(batch) => batch.in_container(strict(batch.name, batch.cpus)),
            Target::Memcached(pace) => memcached(MEMCACHED_CPUS, pace, strict("memcached", MEMCACHED_CPUS)),
        }
    }
}
