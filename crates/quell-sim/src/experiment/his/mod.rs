//! HIS's experiments (his-edgeiso-sdc-snu2020 chapters 2 and 3): a foreground and a background on one socket of its machine,
//! without isolation, with one technique set by hand, or under a policy.

mod course;

use quell_model::{
    CpuCount, CpuId, CpuSet, Host, Knob, KnobSetting, Nanos, Plan, Policy, Slo, Stack, Target, Topology, WorkloadId,
};

use super::assumed::{assumed, micros};
use super::rkube;
use crate::contention::{ProfileName, library};
use crate::host::drive;
use crate::machine::Machine;
use crate::workload::{Arrivals, CpuList, Dispatch, ServerSpec, Service, WorkloadStats};
use crate::{SimError, SimHost, WorkloadSpec};

pub use course::{Variation, quota_latency, variations};

/// Cores of the socket.
pub const CORES: u32 = 16;
/// "Each workload is initially allocated eight dedicated cores" (Figures 3.7 and 3.8).
pub const HALF: u32 = 8;
/// The batch foregrounds (§3.5.1).
pub const BATCH: [&str; 13] = [
    "bodytrack",
    "canneal",
    "streamcluster",
    "dedup",
    "facesim",
    "ferret",
    "fluidanimate",
    "swaptions",
    "vips",
    "cfd",
    "nn",
    "kmeans",
    "bfs",
];
/// The backgrounds of the comparison with Heracles (§3.5.1): two of the CPU, two of the LLC, two of bandwidth.
pub const BACKGROUNDS: [&str; 6] = ["bfs", "swaptions", "canneal", "facesim", "SP", "UA"];
/// The services with their high load, requests a second, and their SLO, ms (§3.5.2).
pub const SERVICES: [(&str, f64, u64); 3] = [("xapian", 1540.0, 7), ("moses", 140.0, 223), ("sphinx", 5.6, 3000)];

/// Ways of half of the cache, for the foreground: the upper ones.
pub const UPPER_WAYS: u32 = 0xffc00;
/// The other half.
pub const LOWER_WAYS: u32 = 0x003ff;

fn cores(from: u32, to: u32) -> CpuSet {
    (from..to).map(CpuId).collect()
}

fn known(name: &str) -> Option<ProfileName> {
    Some(ProfileName::Known(name.to_owned()))
}

/// A program that keeps these threads busy.
#[must_use]
pub fn batch(name: &str, threads: u32) -> WorkloadSpec {
    WorkloadSpec { profile: known(name), ..WorkloadSpec::be(name).busy(threads) }
}

/// A program as the foreground, on the first cores of the socket.
#[must_use]
pub fn foreground(name: &str) -> WorkloadSpec {
    let own = WorkloadSpec {
        name: format!("{name}-fg"),
        profile: known(name),
        ..WorkloadSpec::lc(name, CpuCount::whole(HALF))
    };
    WorkloadSpec { cpuset: Some(CpuList(cores(0, HALF))), ..own.busy(HALF) }
}

/// The background, on the other cores.
#[must_use]
pub fn background(name: &str) -> WorkloadSpec {
    WorkloadSpec { cpuset: Some(CpuList(cores(HALF, CORES))), ..batch(name, HALF) }
}

/// A server of this many threads on this many cores.
#[must_use]
pub fn server(
    name: &str,
    arrivals: Arrivals,
    cores_of_it: u32,
    threads: u32,
    slo: Option<(f64, Nanos)>,
) -> WorkloadSpec {
    let server = ServerSpec { arrivals, service: service_time(name), dispatch: Dispatch::Pool };
    WorkloadSpec {
        threads,
        server: Some(server),
        profile: known(name),
        slo: slo.map(|(quantile, bound)| Slo { quantile, bound }),
        cpuset: Some(CpuList(cores(0, cores_of_it))),
        ..WorkloadSpec::lc(name, CpuCount::whole(cores_of_it))
    }
}

/// The CPU time of a request.
fn service_time(name: &str) -> Service {
    let mean = library::service(name).unwrap_or(Nanos::from_millis(1));
    let spread = assumed("his.tailbench-spread");
    match name {
        "apache" => Service::Exponential(micros("his.apache-service")),
        _ if spread == 1.0 => Service::Exponential(mean),
        _ => Service::Lognormal { mean, sigma: libm::sqrt(libm::log(1.0 + spread * spread)) },
    }
}

/// One of the Tailbench services at its high load.
#[must_use]
pub fn service(name: &str) -> Option<WorkloadSpec> {
    let (_, rate, slo) = SERVICES.into_iter().find(|(known, ..)| *known == name)?;
    Some(server(name, Arrivals::Poisson(rate), HALF, HALF, Some((0.99, Nanos::from_millis(slo)))))
}

/// The web server at half of its eight cores' capacity, in bursts (`ab` with Pareto gaps; here two-state bursts).
#[must_use]
pub fn apache(cores_of_it: u32, rate: f64) -> WorkloadSpec {
    let arrivals = Arrivals::Bursty { rate, factor: 2.0, fraction: 0.2, burst: Nanos::from_millis(300) };
    // "threads > 2 × cores" is when HIS adds cores: a process for each connection.
    server("apache", arrivals, cores_of_it, 24, None)
}

/// Requests a second that eight cores serve alone at this load, 0–1.
#[must_use]
pub fn apache_rate(load: f64) -> f64 {
    load * f64::from(HALF) / micros("his.apache-service").as_secs_f64()
}

/// How long to look.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// For whatever is random.
    pub seed: u64,
    /// Not counted at the beginning.
    pub warm_up: Nanos,
    /// Counted.
    pub measured: Nanos,
}

/// What the workloads did.
#[derive(Clone, Debug)]
pub struct Seen {
    /// By workload.
    pub stats: Vec<WorkloadStats>,
    /// The time.
    pub measured: Nanos,
}

impl Seen {
    /// Instructions a nanosecond of a workload.
    #[must_use]
    pub fn speed(&self, workload: usize) -> f64 {
        self.stats[workload].counted.instructions / self.measured.0 as f64
    }

    /// Bytes a nanosecond between its caches and memory.
    #[must_use]
    pub fn bandwidth(&self, workload: usize) -> f64 {
        self.stats[workload].counted.bytes / self.measured.0 as f64
    }

    /// A quantile of the first workload's latencies, ms.
    #[must_use]
    pub fn tail_ms(&self, quantile: f64) -> f64 {
        self.stats[0].latencies.quantile(quantile).0 as f64 / 1e6
    }
}

/// The socket, with these workloads on it.
///
/// # Errors
/// [`SimError::Scenario`] if one makes no sense.
pub fn host(workloads: &[WorkloadSpec], seed: u64) -> Result<SimHost, SimError> {
    let mut machine = Machine::from(Topology::synthetic(1, 1, CORES, 1));
    machine.memory.latency = Nanos(assumed("his.memory-latency").round() as u64);
    SimHost::new(machine, rkube::kernel(), workloads, seed, false)
}

/// Sets knobs now, as by hand.
pub fn set(host: &mut SimHost, knobs: Vec<KnobSetting>) {
    if !knobs.is_empty() {
        let Ok(()) = host.apply(&Plan { knobs, ..Plan::default() }, &mut Vec::new());
    }
}

/// Runs workloads under a policy, with these knobs set by hand at the beginning.
///
/// # Errors
/// [`SimError::Scenario`] if a workload makes no sense.
pub fn run<P: Policy>(
    workloads: &[WorkloadSpec],
    knobs: Vec<KnobSetting>,
    policy: &mut P,
    span: Span,
) -> Result<Seen, SimError> {
    let mut host = host(workloads, span.seed)?;
    set(&mut host, knobs);
    let mut stack = Stack::of_one(policy, host.view());
    drive(&mut host, &mut stack, span.warm_up, |_, _| {});
    host.end_warm_up();
    drive(&mut host, &mut stack, span.warm_up + span.measured, |_, _| {});
    Ok(Seen { stats: host.sim().stats(), measured: span.measured })
}

/// The two workloads each have half of the ways.
#[must_use]
pub fn partitioned() -> Vec<KnobSetting> {
    let of = |id, mask| KnobSetting { target: Target::Workload(WorkloadId(id)), knob: Knob::CacheWays(mask) };
    vec![of(0, UPPER_WAYS), of(1, LOWER_WAYS)]
}

/// The background's cores have this frequency.
#[must_use]
pub fn throttled(khz: u32) -> Vec<KnobSetting> {
    let of = |cpu| KnobSetting { target: Target::Cpu(CpuId(cpu)), knob: Knob::MaxFrequencyKhz(khz) };
    (HALF..CORES).map(of).collect()
}

/// The background has this many cores.
#[must_use]
pub fn fewer_cores(count: u32) -> Vec<KnobSetting> {
    let knob = Knob::Cpus(cores(HALF, HALF + count));
    vec![KnobSetting { target: Target::Workload(WorkloadId(1)), knob }]
}

/// The web server's p98, ms, while SP is throttled by ten steps of 200 ms and the load rises as much: by its cores'
/// frequency from 2.1 to 1.2 GHz, or by its quota from 100 to 57 % (§3.2, "Responsiveness").
///
/// # Errors
/// [`SimError::Scenario`] if a workload makes no sense.
pub fn stepped<P: Policy>(by_quota: bool, policy: P, seed: u64) -> Result<f64, SimError> {
    let step = Nanos::from_millis(200);
    let rate = |at: u64| crate::workload::Step { at: Nanos(step.0 * at), rate: apache_rate(0.5 + 0.04 * at as f64) };
    let web = server("apache", Arrivals::Steps((0..10).map(rate).collect()), HALF, 24, None);
    let mut host = host(&[web, background("SP")], seed)?;
    let mut stack = Stack::of_one(policy, host.view());
    for at in 0..10u32 {
        let part = 1.0 - 0.43 * f64::from(at) / 9.0;
        set(
            &mut host,
            match by_quota {
                true => vec![KnobSetting {
                    target: Target::Workload(WorkloadId(1)),
                    knob: Knob::Quota(Some(CpuCount((f64::from(HALF) * part * 1000.0) as u32))),
                }],
                false => throttled(2_100_000 - 100_000 * at),
            },
        );
        drive(&mut host, &mut stack, Nanos(step.0 * u64::from(at + 1)), |_, _| {});
    }
    Ok(host.sim().stats()[0].latencies.quantile(0.98).0 as f64 / 1e6)
}
