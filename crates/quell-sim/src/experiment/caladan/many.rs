//! Figures 7 and 8b: many tasks; and the scale beyond the paper.

use std::sync::Arc;

use quell_model::{CpuCount, CpuSet, Nanos, Policy, Topology};

use super::apps::runtime;
use super::{Be, Lc, MANAGED, Means, Seen, Span, Threads, run_on};
use crate::experiment::assumed::assumed;
use crate::machine::Machine;
use crate::workload::{Arrivals, CpuList, Dispatch, Runtime, ServerSpec, Service, Step};
use crate::{SimError, SimHost, WorkloadSpec};

/// Figure 7: "all 3 of the LC tasks along with swaptions-GC and streamcluster (each LC task is configured with 6 guaranteed
/// cores)". The loads are those of the published script (caladan-all, `paper_experiments.py`, `multi_time_step`): all three go
/// up to a quarter, a half, three quarters and all of what the 6 cores can answer, and back to an eighth each time.
#[must_use]
pub fn figure7(threads: Threads, length: Nanos) -> Vec<WorkloadSpec> {
    const PARTS: [f64; 8] = [0.25, 0.125, 0.5, 0.125, 0.75, 0.125, 1.0, 0.125];
    let steps = |most: f64| {
        let at = |number: usize| Nanos(length.0 * number as u64 / PARTS.len() as u64);
        let step = |(number, part): (usize, &f64)| Step { at: at(number), rate: part * most };
        Arrivals::Steps(PARTS.iter().enumerate().map(step).collect())
    };
    let lc = PEAKS.map(|(lc, peak)| {
        let most = peak * f64::from(GUARANTEED) / f64::from(MANAGED);
        lc.spec(steps(most), GUARANTEED, (threads, MANAGED), None)
    });
    lc.into_iter().chain([Be::SwaptionsGc, Be::Streamcluster].map(|be| be.spec(MANAGED))).collect()
}

/// Requests a second that the 22 CPUs can answer, as the published scripts have it. Storage's is the most that is asked of it
/// alone (`caladan_common.py`, `storage`): the script of Figure 7 has another mix of its requests.
const PEAKS: [(Lc, f64); 3] = [(Lc::Memcached, 10e6), (Lc::Silo, 0.5e6), (Lc::Storage, 0.52e6)];

/// Figure 8b: "11 synthetic LC tasks and 2 synthetic non-interfering BE tasks … each is configured with 2 guaranteed cores",
/// and this many requests a second together. Each has as many threads as guaranteed cores, as in the published script
/// (caladan-all, `paper_experiments.py`, `ksched_stress`: `NR_LC_CORES`). Pinned, each LC task has one core's two hyperthreads for
/// good, on which its threads spin (`ms['spin'] = ms['threads']`), and there is no room for others.
#[must_use]
pub fn figure8b(rate: f64, pinned: bool) -> Vec<WorkloadSpec> {
    let topology = Means::Sets.machine().topology;
    let threads = if pinned { 2 } else { assumed("caladan.fig8b-threads").round() as u32 };
    // A second is for good: no request is that late.
    let spin = if pinned { Nanos::from_secs(1) } else { Runtime::default().spin };
    let task = |number: usize, cpus: &CpuSet| {
        let mut lc = Lc::Synthetic.spec(Arrivals::Poisson(rate / 11.0), 2, (Threads::Runtime, threads), None);
        lc.server.iter_mut().for_each(|server| server.dispatch = Dispatch::WorkStealing(Lc::Synthetic.runtime(spin)));
        WorkloadSpec { name: format!("lc-{number}"), cpuset: pinned.then_some(CpuList(*cpus)), ..lc }
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
/// Guaranteed CPUs of each task in Figure 7, and in the scale study: there 8 of the 128 are no one's (§5.1 recommends "a small
/// number").
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
    let dispatch = Dispatch::WorkStealing(runtime());
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

/// Runs the scale study's tasks, where a decision takes this long.
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
