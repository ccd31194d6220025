//! Caladan's experiments (caladan-osdi20 §2, §7 and Appendix A) on the paper's machine, with its applications as profiles
//! of the library.
//!
//! The scheduler's core is not simulated: policies run beside the machine, and what they do takes time. So the machine of
//! Caladan, Shenango, Elfen and Parties* has the other 11 cores; Linux has all 12.

mod apps;
mod many;
mod partition;
mod windows;

use quell_model::{BytesPerSecond, Nanos, Policy, PreemptionMode, Stack, Topology};

use crate::experiment::assumed::{assumed, micros};
use crate::experiment::usual::usual_kernel;
use crate::host::drive;
use crate::machine::{Machine, Preset};
use crate::workload::{Latencies, WorkloadStats};
use crate::{Costs, FairScheduler, Interrupts, KernelConfig, SimError, SimHost, WorkloadSpec};

pub use apps::{Be, Lc, Threads};
pub use many::{TASKS, figure7, figure8b, run_scale, scale};
pub use partition::{reaction, static_partition};
pub use windows::{WINDOW, Window, windows};

/// CPUs that a scheduler manages: "we configure all Caladan experiments with 22 guaranteed cores for LC tasks, leaving one
/// physical core for the scheduler" (§7).
pub const MANAGED: u32 = 22;
/// All CPUs of the socket: "12 physical core (24 hyperthread)" (§7).
pub const ALL: u32 = 24;
/// THRESH_BW: "We use 25 GB/s for our machine" (App. A).
pub const THRESH_BW: f64 = 25e9;
/// What a client measures beside the server: two network cards that bypass the kernel, and a switch (assumed).
#[must_use]
pub fn outside() -> Nanos {
    micros("caladan.outside")
}

/// By what means CPUs change hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Means {
    /// KSCHED: "in a matter of microseconds" (§4.1), many cores at once.
    Ksched,
    /// System calls, as Shenango's and the "earlier version of Caladan" of Figure 8b.
    Syscalls,
    /// The kernel's own scheduler decides, with all CPUs.
    Linux,
    /// The kernel's own scheduler decides within sets of the managed CPUs.
    Sets,
}

/// KSCHED's scheduling latency (assumed: the paper's Figure 8a has it, its text does not).
fn ksched() -> Nanos {
    micros("caladan.ksched")
}
/// How much longer system calls take: "scheduling latency by 5×" (§7.3).
const SYSCALLS_LATENCY: u64 = 5;
/// Scheduling work of a migration by system calls: "bottlenecks at around 285,000 allocations per second" (§7.3).
const SYSCALL_EACH: Nanos = Nanos(1_000_000_000 / 285_000);

impl Means {
    /// The machine.
    #[must_use]
    pub fn machine(self) -> Machine {
        let socket = Preset::named("caladan-socket").expect("the machine of this paper").machine();
        let mut machine = match self {
            Means::Linux => socket,
            _ => Machine { topology: Topology::synthetic(1, 1, MANAGED / 2, 2).into(), ..socket },
        };
        machine.memory.bandwidth = BytesPerSecond(assumed("caladan.memory") * 1e9);
        machine.memory.latency = Nanos(assumed("caladan.memory-latency").round() as u64);
        machine.contention.counters = crate::contention::Meters::named("counters").unwrap_or_default();
        machine
    }

    /// The kernel. Linux 5.4 had CFS (§7); its idle states are disabled, so that idle CPUs begin to work soon.
    #[must_use]
    pub fn kernel(self) -> KernelConfig {
        let costs = Costs { idle_exit: micros("caladan.idle-exit"), grant: ksched(), ..Costs::default() };
        let costs = match self {
            Means::Syscalls => Costs { grant: Nanos(SYSCALLS_LATENCY * ksched().0), grant_each: SYSCALL_EACH, ..costs },
            _ => costs,
        };
        let interrupts = if self == Means::Linux { Interrupts::Spread } else { Interrupts::Elsewhere };
        KernelConfig { fair: FairScheduler::Cfs, preemption: PreemptionMode::Full, interrupts, costs, ..usual_kernel() }
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

/// How it went.
#[derive(Clone, Debug)]
pub struct Seen {
    /// By workload.
    pub workloads: Vec<WorkloadStats>,
    /// The time in which all this happened.
    pub measured: Nanos,
    /// Memory bandwidth in use, bytes a second.
    pub bandwidth: f64,
    /// The part of the CPUs' time in which they were busy, 0–1.
    pub utilisation: f64,
    /// CPUs that changed hands a second.
    pub reallocations: f64,
    /// The most of them in 10 ms, a second.
    pub reallocations_most: f64,
}

impl Seen {
    /// A client's 99.9th percentile.
    #[must_use]
    pub fn p999(&self, workload: usize) -> Nanos {
        p999(&self.workloads[workload].latencies)
    }

    /// A client's 99.9th percentile of the first workloads, this many, together.
    #[must_use]
    pub fn p999_of_all(&self, workloads: usize) -> Nanos {
        let mut all = Latencies::default();
        self.workloads[..workloads].iter().for_each(|workload| all.merge(&workload.latencies));
        p999(&all)
    }

    /// Requests answered a second.
    #[must_use]
    pub fn rate(&self, workload: usize) -> f64 {
        self.workloads[workload].latencies.count() as f64 / self.measured.as_secs_f64()
    }

    /// Instructions a second: throughput of best-effort work.
    #[must_use]
    pub fn instructions(&self, workload: usize) -> f64 {
        self.workloads[workload].counted.instructions / self.measured.as_secs_f64()
    }

    /// CPUs' worth of time got.
    #[must_use]
    pub fn cpus(&self, workload: usize) -> f64 {
        self.workloads[workload].run_time as f64 / self.measured.0 as f64
    }
}

/// A client's 99.9th percentile.
fn p999(latencies: &Latencies) -> Nanos {
    latencies.quantile(0.999) + outside()
}

/// The host and the loop at the beginning.
pub(crate) fn host<P: Policy>(
    means: Means,
    workloads: &[WorkloadSpec],
    policy: &P,
    seed: u64,
) -> Result<SimHost, SimError> {
    SimHost::new(means.machine(), means.kernel(), workloads, seed, policy.describe().grants)
}

/// Runs these workloads under a policy.
///
/// # Errors
/// [`SimError::Scenario`] if a workload makes no sense.
pub fn run<P: Policy>(means: Means, workloads: &[WorkloadSpec], policy: &mut P, span: Span) -> Result<Seen, SimError> {
    run_on(host(means, workloads, policy, span.seed)?, policy, span)
}

/// Runs a host under a policy.
///
/// # Errors
/// Never.
pub fn run_on<P: Policy>(mut host: SimHost, policy: &mut P, span: Span) -> Result<Seen, SimError> {
    let mut stack = Stack::of_one(policy, host.view());
    drive(&mut host, &mut stack, span.warm_up, |_, _| {});
    host.end_warm_up();
    let (mut all, mut lately, mut most) = (0u64, 0u64, 0u64);
    let mut next = span.warm_up + REALLOCATIONS_OVER;
    drive(&mut host, &mut stack, span.warm_up + span.measured, |host, stack| {
        if host.sim().now() >= next {
            (most, lately, next) = (most.max(lately), 0, host.sim().now() + REALLOCATIONS_OVER);
        }
        let grants = stack.stepped().map(|layer| layer.plan.grants.len() as u64).sum::<u64>();
        all += grants;
        lately += grants;
    });
    let sim = host.sim();
    Ok(Seen {
        workloads: sim.stats(),
        measured: span.measured,
        bandwidth: sim.bandwidth().map_or(0.0, |used| used.0),
        utilisation: sim.utilisation(),
        reallocations: all as f64 / span.measured.as_secs_f64(),
        reallocations_most: most as f64 / REALLOCATIONS_OVER.as_secs_f64(),
    })
}

/// "Up to" this many reallocations a second are counted over this time (assumed).
const REALLOCATIONS_OVER: Nanos = Nanos::from_millis(10);
