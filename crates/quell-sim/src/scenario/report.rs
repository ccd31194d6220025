//! What came out, as numbers for tables and JSON.

use quell_model::{Class, Nanos};
use serde::Serialize;

use super::{Intervals, Observed, QUANTILES, Scenario, interval};
use crate::contention::solve::Rates;
use crate::vm::VmStats;
use crate::workload::{Latencies, WorkloadStats};

/// A scenario under one policy, all repetitions together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The policy.
    pub policy: String,
    /// Simulated time that was measured, over all repetitions, ns.
    pub measured: Nanos,
    /// The part of all CPUs' time in which they were busy, 0–1.
    pub utilisation: f64,
    /// Memory bandwidth in use, bytes per second; none where contention is not modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<f64>,
    /// Kernel events.
    pub events: u64,
    /// Context switches.
    pub switches: u64,
    /// Times a thread began to run on another CPU than before.
    pub migrations: u64,
    /// Commands that the policy gave.
    pub commands: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Time charged for the policy's deciding and acting, ns.
    pub decision_time: Nanos,
    /// By workload, in the scenario's order, then by VM.
    pub workloads: Vec<WorkloadReport>,
}

/// One workload. Latencies are ns, from arrival (release, job start) to completion; none where nothing was completed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadReport {
    /// Its name.
    pub name: String,
    /// The VM that it runs in; its CPUs are then the guest's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<String>,
    /// Its class.
    pub class: Class,
    /// Requests (jobs) completed.
    pub completed: u64,
    /// Per second.
    pub throughput: f64,
    /// Mean latency.
    pub mean: Option<Nanos>,
    /// Quantiles of latency.
    pub p50: Option<Nanos>,
    /// 90 %.
    pub p90: Option<Nanos>,
    /// 99 %.
    pub p99: Option<Nanos>,
    /// 99.9 %.
    pub p999: Option<Nanos>,
    /// 99.99 %.
    pub p9999: Option<Nanos>,
    /// The largest.
    pub max: Option<Nanos>,
    /// The lowest and the highest p99 of the repetitions, if there are several.
    pub p99_range: Option<(Nanos, Nanos)>,
    /// 95 % intervals of the quantiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// The part of latencies above the SLO's bound, 0–1; none without an SLO.
    pub slo_violations: Option<f64>,
    /// Periodic jobs that ended after their deadline.
    pub missed_deadlines: u64,
    /// CPUs' worth of time that it got.
    pub cpus_got: f64,
    /// CPUs that it requested.
    pub cpus_requested: f64,
    /// Threads that waited for a CPU, on average.
    pub threads_waiting: f64,
    /// What its counters say; none where contention is not modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<CounterReport>,
}

/// A workload's counters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CounterReport {
    /// Instructions retired per second.
    pub instruction_rate: f64,
    /// Instructions per cycle.
    pub ipc: f64,
    /// LLC hits per reference, 0–1.
    pub llc_hit_ratio: f64,
    /// Memory bandwidth used, bytes per second.
    pub memory_bandwidth: f64,
    /// References that found their core's super queue full, per second.
    pub buffer_full_rate: f64,
}

impl Report {
    pub(super) fn new(scenario: &Scenario, policy: &str, runs: &[Observed]) -> Report {
        let measured = runs.iter().fold(Nanos::ZERO, |sum, run| sum + run.measured);
        let sum = |of: fn(&Observed) -> u64| runs.iter().map(of).sum();
        Report {
            policy: policy.into(),
            measured,
            utilisation: runs.iter().map(|run| run.utilisation).sum::<f64>() / runs.len().max(1) as f64,
            memory_bandwidth: mean_bandwidth(runs),
            events: sum(|run| run.counters.events),
            switches: sum(|run| run.counters.switches),
            migrations: sum(|run| run.counters.migrations),
            commands: sum(|run| run.policy_costs.commands),
            refused: sum(|run| run.policy_costs.refused),
            decision_time: runs.iter().fold(Nanos::ZERO, |sum, run| sum + run.policy_costs.charged),
            workloads: (0..scenario.workloads.len())
                .map(|at| workload(scenario, at, runs, measured))
                .chain((0..scenario.vms.len()).map(|at| vm(scenario, at, runs, measured)))
                .collect(),
        }
    }
}

impl WorkloadReport {
    /// The quantiles in the order of [`QUANTILES`], as far as enough latencies lie beyond them.
    #[must_use]
    pub fn quantiles(&self) -> [Option<Nanos>; 5] {
        let mut all = [self.p50, self.p90, self.p99, self.p999, self.p9999];
        for (value, quantile) in all.iter_mut().zip(&QUANTILES) {
            *value = value.filter(|_| self.completed >= quantile.least);
        }
        all
    }
}

fn workload(scenario: &Scenario, at: usize, runs: &[Observed], measured: Nanos) -> WorkloadReport {
    let spec = &scenario.workloads[at];
    let stats = || runs.iter().map(|run| &run.workloads[at]);
    let mut all = Latencies::default();
    stats().for_each(|stats| all.merge(&stats.latencies));
    let completed = all.count();
    let some = |latency: Nanos| (completed > 0).then_some(latency);
    let span = measured.0.max(1) as f64;
    let each = stats().filter(|stats| stats.latencies.count() > 0).map(|stats| stats.latencies.quantile(0.99));
    let range = each.clone().min().zip(each.max()).filter(|_| runs.len() > 1);
    WorkloadReport {
        name: spec.name.clone(),
        vm: spec.vm.clone(),
        class: spec.class,
        completed,
        throughput: completed as f64 * 1e9 / span,
        mean: some(all.mean()),
        p50: some(all.quantile(0.5)),
        p90: some(all.quantile(0.9)),
        p99: some(all.quantile(0.99)),
        p999: some(all.quantile(0.999)),
        p9999: some(all.quantile(0.9999)),
        max: some(all.max()),
        p99_range: range,
        intervals: interval::of(runs, at),
        slo_violations: spec
            .slo
            .map(|_| stats().map(|stats| stats.violations).sum::<u64>() as f64 / completed.max(1) as f64),
        missed_deadlines: stats().map(|stats| stats.missed).sum(),
        cpus_got: stats().map(|stats| stats.run_time).sum::<u64>() as f64 / span,
        cpus_requested: spec.cpus.as_f64(),
        threads_waiting: stats().map(|stats| stats.run_delay).sum::<u64>() as f64 / span,
        counters: runs.iter().all(|run| run.bandwidth.is_some()).then(|| counters(stats(), measured)),
    }
}

fn mean_bandwidth(runs: &[Observed]) -> Option<f64> {
    let sum: Option<f64> = runs.iter().map(|run| run.bandwidth.map(|used| used.0)).sum();
    sum.map(|sum| sum / runs.len().max(1) as f64)
}

fn counters<'a>(stats: impl Iterator<Item = &'a WorkloadStats>, measured: Nanos) -> CounterReport {
    let mut all = Rates::default();
    stats.for_each(|stats| all.add(&stats.counted, 1.0));
    let seconds = measured.as_secs_f64();
    let part = |of: f64, all: f64| if all > 0.0 { of / all } else { 0.0 };
    CounterReport {
        instruction_rate: all.instructions / seconds,
        ipc: part(all.instructions, all.cycles),
        llc_hit_ratio: part(all.references - all.misses, all.references),
        memory_bandwidth: all.bytes / seconds,
        buffer_full_rate: all.buffer_full / seconds,
    }
}

/// A VM's row: the CPUs of the host that it got, and its vCPUs that waited for one. Latencies have the rows of what runs
/// in it.
fn vm(scenario: &Scenario, at: usize, runs: &[Observed], measured: Nanos) -> WorkloadReport {
    let spec = &scenario.vms[at];
    let span = measured.0.max(1) as f64;
    let sum = |of: fn(&VmStats) -> u64| runs.iter().map(|run| of(&run.vms[at])).sum::<u64>() as f64;
    WorkloadReport {
        name: spec.name.clone(),
        vm: None,
        class: spec.class,
        completed: 0,
        throughput: 0.0,
        mean: None,
        p50: None,
        p90: None,
        p99: None,
        p999: None,
        p9999: None,
        max: None,
        p99_range: None,
        intervals: None,
        slo_violations: None,
        missed_deadlines: 0,
        cpus_got: sum(|stats| stats.run_time) / span,
        cpus_requested: spec.cpus.as_f64(),
        threads_waiting: sum(|stats| stats.run_delay) / span,
        counters: None,
    }
}
