//! Threads that start short-lived threads.

use quell_model::{Class, Nanos, Topology};
use quell_sim::workload::{BatchSpec, ForksSpec, Service, WorkloadStats};
use quell_sim::{Costs, FairScheduler, KernelConfig, Sim, WorkloadSpec};

const MS: u64 = 1_000_000;

fn forks(every: Option<u64>, work: u64, most: u32) -> WorkloadSpec {
    let forks = ForksSpec { every: every.map(Nanos), work: Service::Constant(Nanos(work)), most };
    WorkloadSpec { forks: Some(forks), ..WorkloadSpec::new("forks", Class::LatencyCritical) }
}

fn spins(threads: u32) -> WorkloadSpec {
    WorkloadSpec { threads, batch: Some(BatchSpec::default()), ..WorkloadSpec::new("spins", Class::BestEffort) }
}

/// A second of these on this many CPUs.
fn run(cpus: u32, config: KernelConfig, workloads: &[WorkloadSpec]) -> Vec<WorkloadStats> {
    let mut sim = Sim::new(Topology::synthetic(1, 1, cpus, 1), config, workloads, 1).unwrap();
    sim.begin();
    sim.run_until(Nanos(100 * MS));
    sim.end_warm_up();
    sim.run_until(Nanos(1100 * MS));
    sim.stats()
}

fn free() -> KernelConfig {
    KernelConfig { costs: Costs::FREE, ..KernelConfig::default() }
}

#[test]
fn a_thread_is_started_at_every_period_and_works_at_once_where_a_cpu_is_idle() {
    // Four alive at any time, on five CPUs.
    let stats = &run(5, free(), &[forks(Some(MS), 4 * MS, 5)])[0];
    assert!((999..=1001).contains(&stats.latencies.count()), "{stats:?}");
    assert!(stats.latencies.max() <= Nanos(4 * MS + MS / 10), "{:?}", stats.latencies.max());
    assert!(stats.switching.preemptions < 10, "none is in another one's way: {:?}", stats.switching);
}

#[test]
fn what_starting_beginning_and_ending_cost_is_paid() {
    let [fork, begin, end] = [50_000, 70_000, 90_000].map(Nanos);
    let config = KernelConfig { costs: Costs { fork, begin, end, ..Costs::FREE }, ..KernelConfig::default() };
    let stats = &run(2, config, &[forks(Some(5 * MS), MS, 1)])[0];
    let until_done = MS + fork.0 + begin.0;
    let median = stats.latencies.quantile(0.5).0;
    assert!(median.abs_diff(until_done) < until_done / 50, "{median} ns");
    let each = stats.run_time / 200;
    assert!(each.abs_diff(until_done + end.0) < until_done / 50, "{each} ns");
}

#[test]
fn a_start_waits_while_too_many_are_alive() {
    let stats = &run(4, free(), &[forks(Some(MS), 3 * MS, 2)])[0];
    // Two at a time, each for 3 ms.
    assert!((650..=680).contains(&stats.latencies.count()), "{stats:?}");
    assert!(stats.arrived > 990 && stats.latencies.quantile(0.5) > Nanos(100 * MS), "{stats:?}");
}

#[test]
fn back_to_back_they_take_their_groups_share_and_no_more() {
    for fair in [FairScheduler::Eevdf, FairScheduler::Cfs] {
        let stats = run(1, KernelConfig { fair, ..free() }, &[forks(None, MS, 3), spins(1)]);
        let share = stats[0].run_time as f64 / 1e9;
        assert!((0.45..0.55).contains(&share), "{fair:?}: new threads owe nothing and are owed nothing: {share}");
        assert!(stats[0].latencies.count() > 400, "{fair:?}: {stats:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |spec: WorkloadSpec| {
        let sim = Sim::new(Topology::synthetic(1, 1, 1, 1), free(), &[spec], 1);
        sim.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused(forks(Some(10), MS, 1)).contains("every microsecond"));
    assert!(refused(forks(None, MS, 0)).contains("1 to 1000"));
}
