//! The applications of caladan-osdi20 §7, "Evaluated applications".

use quell_model::{Class, CpuCount, Nanos, Slo};

use super::MANAGED;
use crate::WorkloadSpec;
use crate::contention::{Profile, ProfileName};
use crate::experiment::assumed::{assumed, micros};
use crate::workload::{Arrivals, BatchSpec, Dispatch, Runtime, ServerSpec, Service, Turn};

/// A latency-critical application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lc {
    /// The key-value store: "service times of about 1 μs", of requests as Facebook's USR pool has them: all but one in 500 are
    /// reads, keys have 16 or 21 bytes, values 2 (Atikoglu et al., SIGMETRICS 2012). So all are taken to be alike.
    Memcached,
    /// The in-memory database with TPC-C: "20 μs median; 280 μs 99.9%-ile".
    Silo,
    /// The block store with compression and encryption: "99% 4KB, 1% 44KB … (35 μs and 250 μs for each respective size)".
    /// Of that the device's own time, 10 µs, is no CPU time.
    Storage,
    /// Figure 8b's: "5 μs average service times that are exponentially distributed". It has no profile.
    Synthetic,
}

/// A best-effort application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Be {
    /// PARSEC's video encoder.
    X264,
    /// PARSEC's swaptions with the Boehm collector.
    SwaptionsGc,
    /// PARSEC's online clustering.
    Streamcluster,
    /// The antagonist that "displaces the L2 cache".
    StreamL2,
    /// The antagonist that "displaces the LLC and consumes all available memory bandwidth".
    StreamDram,
    /// Figure 8b's "non-interfering" one. It has no profile.
    Synthetic,
}

/// How requests find threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threads {
    /// Caladan's runtime: green threads and work stealing.
    Runtime,
    /// An unmodified server: kernel threads that take requests from one queue.
    Pool,
    /// An unmodified server on the kernel's network: each thread has its own connections.
    Linux,
}

/// CPU time of a request that the kernel's network takes: of the order of 100,000 requests a second and core that an
/// unmodified memcached answers on such processors. Assumed.
fn network() -> Nanos {
    micros("caladan.network")
}

/// CPU time of a request that the runtime's network takes, which is a part of the application (§6). So much that memcached
/// alone answers 12.1 million requests a second on 22 hyperthreads, a little more than the published script asks of them at
/// most (12 million: caladan-all, `paper_experiments.py`, `lc_sweep`): an input.
fn stack() -> Nanos {
    micros("caladan.stack")
}

/// Caladan's runtime without a network: what its steps take are inputs.
pub(super) fn runtime() -> Runtime {
    let [switch, steal, park] = ["caladan.switch", "caladan.steal", "caladan.park"].map(micros);
    Runtime { switch, steal, park, ..Runtime::default() }
}

/// What the Optane device takes of storage's service times, while the green thread sleeps: its latency (Intel's data sheet of
/// the Optane SSD 900P: "<10 µs"). That it is part of the 35 µs follows from the loads of the published scripts, up to
/// 520,000 requests a second (caladan-all, `caladan_common.py`, `storage`): with 35 µs of CPU time two hyperthreads had to do
/// 1.75 times the work of one; §3.2 has "up to 30% higher throughput".
fn device() -> Nanos {
    micros("caladan.device")
}

/// A lognormal distribution with silo's median and 99.9th percentile: ln(280/20) over the normal one's 3.09.
const SILO_SIGMA: f64 = 0.854;
/// Its mean: 20 µs · e^(σ²/2).
const SILO_MEAN: Nanos = Nanos(28_800);

/// Speed of a thread of 22 while all collect, and while all compute (as the model has it): the profiles' work is that of a
/// collection (`caladan.collection`, "100–200 ms", §2) and of the time between two of them (`caladan.between`; Figure 7's 30 s
/// have three, beside other work) at these speeds.
const SPEED_COLLECTING: f64 = 0.4;
const SPEED_COMPUTING: f64 = 0.6;

impl Lc {
    /// The three that are evaluated (§7).
    pub const ALL: [Lc; 3] = [Lc::Storage, Lc::Memcached, Lc::Silo];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Lc::Memcached => "memcached",
            Lc::Silo => "silo",
            Lc::Storage => "storage",
            Lc::Synthetic => "synthetic",
        }
    }

    /// CPU time of a request, alone.
    #[must_use]
    pub fn service(self) -> Service {
        match self {
            Lc::Memcached => Service::Constant(Nanos::from_micros(1)),
            Lc::Silo => Service::Lognormal { mean: SILO_MEAN, sigma: SILO_SIGMA },
            Lc::Storage => {
                let device = device();
                let [short, long] = [35, 250].map(|micros| Nanos::from_micros(micros) - device);
                Service::Bimodal { short, long, long_share: 0.01 }
            }
            Lc::Synthetic => Service::Exponential(Nanos::from_micros(5)),
        }
    }

    /// THRESH_HT (§7, "Parameter tuning": "25 μs for silo, 40 μs for storage, and infinite for memcached").
    #[must_use]
    pub fn thresh_ht(self) -> Option<Nanos> {
        match self {
            Lc::Memcached | Lc::Synthetic => None,
            Lc::Silo => Some(Nanos::from_micros(25)),
            Lc::Storage => Some(Nanos::from_micros(40)),
        }
    }

    /// Caladan's runtime, whose threads look about for this long.
    #[must_use]
    pub fn runtime(self, spin: Nanos) -> Runtime {
        Runtime { spin, packet: stack(), storage: self.device(), ..runtime() }
    }

    /// What a device takes of each request. Kernel threads are not simulated waiting for it: it is to be added to their latency.
    #[must_use]
    pub fn device(self) -> Nanos {
        if self == Lc::Storage { device() } else { Nanos::ZERO }
    }

    /// It as a workload: requests a second, guaranteed CPUs, kernel threads.
    #[must_use]
    pub fn spec(
        self,
        arrivals: Arrivals,
        guaranteed: u32,
        threads: (Threads, u32),
        slo: Option<Nanos>,
    ) -> WorkloadSpec {
        let (dispatch, service) = match threads.0 {
            Threads::Runtime => (Dispatch::WorkStealing(self.runtime(Runtime::default().spin)), self.service()),
            // What the kernel's network takes more is not looked at there.
            Threads::Pool => (Dispatch::Pool, self.service().after(stack())),
            Threads::Linux => (Dispatch::PerThread, self.service().after(network())),
        };
        WorkloadSpec {
            cpus: CpuCount::whole(guaranteed),
            threads: threads.1,
            slo: slo.map(|bound| Slo { quantile: 0.999, bound }),
            profile: (self != Lc::Synthetic).then(|| known(self.name())),
            server: Some(ServerSpec { arrivals, service, dispatch }),
            ..WorkloadSpec::new(self.name(), Class::LatencyCritical)
        }
    }
}

impl Be {
    /// The five that are evaluated (§7).
    pub const ALL: [Be; 5] = [Be::X264, Be::SwaptionsGc, Be::Streamcluster, Be::StreamL2, Be::StreamDram];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Be::X264 => "x264",
            Be::SwaptionsGc => "swaptions-GC",
            Be::Streamcluster => "streamcluster",
            Be::StreamL2 => "stream-L2",
            Be::StreamDram => "stream-DRAM",
            Be::Synthetic => "synthetic-be",
        }
    }

    /// It as a workload of this many threads.
    #[must_use]
    pub fn spec(self, threads: u32) -> WorkloadSpec {
        let work = |ms: f64, speed: f64| Some(Nanos((ms * 1e6 * f64::from(MANAGED) * speed) as u64));
        let turn = |name: &str, work| Turn { profile: known(name), lasts: None, work };
        let (cycle, profile) = match self {
            Be::SwaptionsGc => (
                vec![
                    turn("swaptions", work(assumed("caladan.between"), SPEED_COMPUTING)),
                    turn("swaptions-gc", work(assumed("caladan.collection"), SPEED_COLLECTING)),
                ],
                None,
            ),
            Be::Synthetic => (Vec::new(), None),
            Be::StreamL2 => (Vec::new(), Some(stream_l2())),
            _ => (Vec::new(), Some(known(self.name()))),
        };
        let batch = Some(BatchSpec { cycle, ..BatchSpec::default() });
        WorkloadSpec { threads, batch, profile, ..WorkloadSpec::new(self.name(), Class::BestEffort) }
    }
}

/// stream-L2 of the library, with what is assumed of it.
fn stream_l2() -> ProfileName {
    let (suffers, takes) = (assumed("caladan.streaml2-suffers"), assumed("caladan.streaml2-takes"));
    match known("stream-L2").profile() {
        Ok(usual) if (usual.sensitivity, usual.pressure) != (suffers, takes) => {
            ProfileName::Own(Profile { sensitivity: suffers.min(1.0), pressure: takes.min(1.0), ..usual })
        }
        _ => known("stream-L2"),
    }
}

/// A profile of the library.
fn known(name: &str) -> ProfileName {
    ProfileName::Known(name.to_owned())
}
