//! Figures 7 and 8b: many tasks; and the scale beyond the paper.

use std::sync::Arc;

use quell_model::{CpuCount, CpuSet, Nanos, Policy, Topology};

use super::{Be, Lc, MANAGED, Means, Seen, Span, Threads, run_on};
use crate::machine::Machine;
use crate::workload::{Arrivals, CpuList, Dispatch, Runtime, ServerSpec, Service, Step};
use crate::{SimError, SimHost, WorkloadSpec};

/// Figure 7: "all 3 of the LC tasks along with swaptions-GC and streamcluster (each LC task is configured with 6 guaranteed
/// cores)". Which loads they have when is in the figure only: these steps are assumed, of thousands of requests a second, one
/// sixth of the time each.
#[must_use]
pub fn figure7(threads: Threads, length: Nanos) -> Vec<WorkloadSpec> {
    let steps = |thousands: [f64; 6]| {
        let step = |(number, rate): (usize, &f64)| Step { at: Nanos(length.0 * number as u64 / 6), rate: rate * 1e3 };
        Arrivals::Steps(thousands.iter().enumerate().map(step).collect())
    };
    let loads = [
        (Lc::Memcached, [400.0, 800.0, 400.0, 800.0, 1_200.0, 400.0]),
        (Lc::Silo, [20.0, 20.0, 60.0, 40.0, 20.0, 80.0]),
        (Lc::Storage, [20.0, 40.0, 60.0, 20.0, 40.0, 20.0]),
    ];
    let lc = loads.map(|(lc, rates)| lc.spec(steps(rates), 6, (threads, MANAGED), None));
    lc.into_iter().chain([Be::SwaptionsGc, Be::Streamcluster].map(|be| be.spec(MANAGED))).collect()
}

/// Figure 8b: "11 synthetic LC tasks and 2 synthetic non-interfering BE tasks … each is configured with 2 guaranteed cores",
/// and so many requests a second together. Pinned, each LC task has one core's two hyperthreads for good, and there is no
/// room for others.
#[must_use]
pub fn figure8b(rate: f64, pinned: bool) -> Vec<WorkloadSpec> {
    let topology = Means::Sets.machine().topology;
    let threads = if pinned { 2 } else { MANAGED };
    let task = |number: usize, cpus: &CpuSet| WorkloadSpec {
        name: format!("lc-{number}"),
        cpuset: pinned.then_some(CpuList(*cpus)),
        ..Lc::Synthetic.spec(Arrivals::Poisson(rate / 11.0), 2, (Threads::Runtime, threads), None)
    };
    let lc = topology.cores().iter().enumerate().map(|(number, cpus)| task(number, cpus));
    let be = (0..if pinned { 0 } else { 2 })
        .map(|number| WorkloadSpec { name: format!("be-{number}"), ..Be::Synthetic.spec(MANAGED) });
    lc.chain(be).collect()
}

/// The scale study's machine: two sockets of 32 cores with two hyperthreads each.
const CORES: u32 = 32;
/// Its latency-critical tasks, and as many best-effort ones.
pub const TASKS: u32 = 20;
/// Guaranteed CPUs of each: 8 of the 128 are nobody's (§5.1 recommends "a small number").
const GUARANTEED: u32 = 6;
/// CPU time of a request: exponential with this mean.
const SERVICE: Nanos = Nanos::from_micros(20);

/// Twenty latency-critical tasks whose requests come in bursts of about 1 ms with four times the mean rate, a tenth of the
/// time; and twenty best-effort ones. `load`: of the guaranteed CPUs, the mean part that is asked for. Nothing has a profile:
/// what comes out is the scheduler's alone.
#[must_use]
pub fn scale(load: f64, lc: u32, be: u32) -> Vec<WorkloadSpec> {
    let rate = load * f64::from(GUARANTEED) / SERVICE.as_secs_f64();
    let arrivals = Arrivals::Bursty { rate, factor: 4.0, fraction: 0.1, burst: Nanos::from_millis(1) };
    let dispatch = Dispatch::WorkStealing(Runtime::default());
    let server = ServerSpec { arrivals, service: Service::Exponential(SERVICE), dispatch };
    let task = |number: u32| WorkloadSpec {
        name: format!("lc-{number}"),
        cpus: CpuCount::whole(GUARANTEED),
        threads: 2 * CORES,
        server: Some(server.clone()),
        ..WorkloadSpec::new("", quell_model::Class::LatencyCritical)
    };
    let batch = |number: u32| WorkloadSpec { name: format!("be-{number}"), ..Be::Synthetic.spec(2 * CORES) };
    (0..lc).map(task).chain((0..be).map(batch)).collect()
}

/// Runs the scale study's tasks, where a decision takes so long.
///
/// # Errors
/// [`SimError::Scenario`] never.
pub fn run_scale<P: Policy>(
    workloads: &[WorkloadSpec],
    policy: &mut P,
    decision: Nanos,
    span: Span,
) -> Result<Seen, SimError> {
    let topology = Arc::new(Topology::synthetic(2, 1, CORES, 2));
    let machine = Machine { topology, ..Means::Ksched.machine() };
    let mut kernel = Means::Ksched.kernel();
    kernel.costs.decision = decision;
    let host = SimHost::new(machine, kernel, workloads, span.seed, policy.describe().grants)?;
    run_on(host, policy, span)
}
