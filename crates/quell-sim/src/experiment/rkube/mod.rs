//! rKube's experiments (rkube-socc21 §3 and §6): a target container beside a noisy neighbour, on the paper's machine
//! under its kernel's scheduler, with Kubernetes' own means or with rKube; and machines with the jobs of a trace.
//!
//! What the paper calls *standard* is the policy `none`: requests are weights, limits are quotas, nothing is pinned.

mod kubelet;
mod target;
mod trace;

use quell_model::{Class, CpuCount, Nanos, Policy, PreemptionMode, Reservation, Stack};

use crate::experiment::usual::usual_kernel;
use crate::host::drive;
use crate::machine::{Machine, Preset};
use crate::workload::{BatchSpec, WorkloadStats};
use crate::{FairScheduler, KernelConfig, RealTimeLimit, SimError, SimHost, WorkloadSpec};

pub use target::{BATCH, Batch, MEMCACHED, OUTSIDE, Target};
pub use trace::{Jobs, Served};

/// "We reserve 2 CPUs for Kubernetes and OS system services on each host and leave 22 available CPUs for hosting
/// containers" (§3.1.1; §6.5 has 2 of 40). What these services use is little, and not simulated: with rKube the host is
/// busy to 91 % where 22 of 24 CPUs always are (§6.1, Fig. 7b).
pub const SYSTEM_CPUS: u32 = 2;
/// The CPUs for containers.
pub const ALLOCATABLE: u32 = 22;

/// The neighbour: stress-ng (Table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    /// Memory-intensive; else CPU-intensive.
    pub memory: bool,
    /// Without a limit; else its limit is its request.
    pub burstable: bool,
    /// CPUs that it requests.
    pub cpus: u32,
}

impl Neighbour {
    /// "Both run with 32 worker threads" (§3.1.2).
    const THREADS: u32 = 32;

    /// The four neighbours that request all that this target leaves (§3.1.3), from the least to the most contention.
    #[must_use]
    pub fn all(target_cpus: u32) -> [Neighbour; 4] {
        let of = |memory, burstable| Neighbour { memory, burstable, cpus: ALLOCATABLE - target_cpus };
        [of(false, false), of(true, false), of(false, true), of(true, true)]
    }

    fn spec(self) -> WorkloadSpec {
        let profile = if self.memory { "stress-ng-memory" } else { "stress-ng-cpu" };
        let container = container("neighbour", Class::BestEffort, self.cpus, !self.burstable);
        let batch = Some(BatchSpec::default());
        WorkloadSpec { threads: Neighbour::THREADS, batch, profile: Some(known(profile)), ..container }
    }
}

/// A profile of the library.
fn known(name: &str) -> crate::contention::ProfileName {
    crate::contention::ProfileName::Known(name.to_owned())
}

/// A container as Kubernetes sets it up: `cpu.shares` are 1024 a CPU requested (§2), which is a `cpu.weight` of 100; a
/// limit is a quota.
fn container(name: &str, class: Class, cpus: u32, is_limited: bool) -> WorkloadSpec {
    let limit = is_limited.then_some(CpuCount::whole(cpus));
    WorkloadSpec {
        cpus: CpuCount::whole(cpus),
        limit,
        quota: limit,
        weight: 100 * cpus,
        ..WorkloadSpec::new(name, class)
    }
}

/// A container whose limit is its request (Table 1), and that asks for a strict reservation (§5.2), which only rKube
/// honours.
fn strict(name: &str, cpus: u32) -> WorkloadSpec {
    WorkloadSpec { reservation: Reservation::Strict, ..container(name, Class::LatencyCritical, cpus, true) }
}

/// The paper's kernel, Linux 4.9: CFS, where a wake-up interrupts user code on any CPU at once (Debian's has voluntary
/// preemption, which differs from full preemption in kernel code only), and groups are weighed by decaying averages.
#[must_use]
pub fn kernel() -> KernelConfig {
    KernelConfig {
        fair: FairScheduler::Cfs,
        preemption: PreemptionMode::Full,
        real_time_limit: RealTimeLimit::Throttling,
        ..usual_kernel()
    }
}

/// Who is on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenants {
    /// The one that is looked at.
    pub target: Target,
    /// The one that disturbs it; None: the target is alone.
    pub neighbour: Option<Neighbour>,
}

/// How they fare.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What the target achieved: of a batch target, jobs.
    pub target: WorkloadStats,
    /// CPU time that the target got, of that requested.
    pub utilisation: f64,
    /// The part of all CPUs' time in which they were busy, 0–1.
    pub host: f64,
    /// The time in which all this happened.
    pub measured: Nanos,
}

impl Seen {
    /// Requests or jobs a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.target.latencies.count() as f64 / self.measured.as_secs_f64()
    }

    /// Adds what another run of the same length showed, the last of `runs`.
    pub fn merge(&mut self, other: &Seen, runs: u32) {
        let mean = |all: f64, one: f64| all + (one - all) / f64::from(runs);
        self.target.latencies.merge(&other.target.latencies);
        self.utilisation = mean(self.utilisation, other.utilisation);
        self.host = mean(self.host, other.host);
        self.measured += other.measured;
    }

    /// A client's 99th percentile.
    #[must_use]
    pub fn p99(&self) -> Nanos {
        self.target.latencies.quantile(0.99) + OUTSIDE
    }
}

/// How long to look, and what is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// For whatever is random.
    pub seed: u64,
    /// Not counted at the beginning.
    pub warm_up: Nanos,
    /// Counted.
    pub measured: Nanos,
}

impl Tenants {
    /// Runs them under a policy.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if a target makes no sense.
    pub fn run<P: Policy>(&self, policy: &mut P, span: Span) -> Result<Seen, SimError> {
        self.run_as(self.specs(), policy, span)
    }

    /// Runs them pinned as the kubelet's static CPU manager does it.
    ///
    /// # Errors
    /// As [`Tenants::run`].
    pub fn run_pinned<P: Policy>(&self, policy: &mut P, span: Span) -> Result<Seen, SimError> {
        let mut workloads = self.specs();
        kubelet::pin(&mut workloads, &machine().topology);
        self.run_as(workloads, policy, span)
    }

    fn specs(&self) -> Vec<WorkloadSpec> {
        std::iter::once(self.target.spec()).chain(self.neighbour.map(Neighbour::spec)).collect()
    }

    fn run_as<P: Policy>(&self, workloads: Vec<WorkloadSpec>, policy: &mut P, span: Span) -> Result<Seen, SimError> {
        let requested = workloads[0].cpus;
        let host = observe(machine(), &workloads, policy, span)?;
        let target = host.sim().stats().swap_remove(0);
        Ok(Seen {
            utilisation: target.run_time as f64 / requested.of(span.measured).0 as f64,
            host: host.sim().utilisation(),
            measured: span.measured,
            target,
        })
    }
}

fn machine() -> Machine {
    Preset::named("rkube").expect("the machine of this paper").machine()
}

/// The host after this time under a policy.
fn observe<P: Policy>(
    machine: Machine,
    workloads: &[WorkloadSpec],
    policy: &mut P,
    span: Span,
) -> Result<SimHost, SimError> {
    let mut host = SimHost::new(machine, kernel(), workloads, span.seed, false)?;
    let mut stack = Stack::of_one(policy, host.view());
    drive(&mut host, &mut stack, span.warm_up, |_, _| {});
    host.end_warm_up();
    drive(&mut host, &mut stack, span.warm_up + span.measured, |_, _| {});
    Ok(host)
}
