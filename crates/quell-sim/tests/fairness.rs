//! Shares by weight, through groups and under quotas, against what the kernel promises.

use quell_model::{Class, CpuCount, Nanos, PreemptionMode, SchedClass, Topology};
use quell_sim::workload::{BatchSpec, CpuList};
use quell_sim::{Costs, FairScheduler, KernelConfig, Sim, TaskId, WorkloadSpec};

fn config(fair: FairScheduler) -> KernelConfig {
    KernelConfig { fair, costs: Costs::FREE, ..KernelConfig::default() }
}

fn hog(name: &str, weight: u32, threads: u32) -> WorkloadSpec {
    let batch = Some(BatchSpec::default());
    WorkloadSpec { weight, threads, batch, ..WorkloadSpec::new(name, Class::BestEffort) }
}

/// CPUs' worth of time that each workload got in ten seconds, after one second.
fn shares(cpus: u32, config: KernelConfig, workloads: &[WorkloadSpec]) -> Vec<f64> {
    let mut sim = Sim::new(Topology::synthetic(1, 1, cpus, 1), config, workloads, 1).unwrap();
    sim.begin();
    sim.run_until(Nanos::from_secs(1));
    sim.end_warm_up();
    sim.run_until(Nanos::from_secs(11));
    sim.stats().iter().map(|stats| stats.run_time as f64 / 10e9).collect()
}

fn assert_shares(got: &[f64], wanted: &[f64], tolerance: f64) {
    for (got_one, wanted_one) in got.iter().zip(wanted) {
        assert!((got_one - wanted_one).abs() <= tolerance * wanted_one, "got {got:?}, wanted {wanted:?}");
    }
}

#[test]
fn one_cpu_is_shared_by_weight() {
    for fair in [FairScheduler::Eevdf, FairScheduler::Cfs] {
        let got = shares(1, config(fair), &[hog("a", 100, 1), hog("b", 200, 1), hog("c", 500, 1)]);
        assert_shares(&got, &[1.0 / 8.0, 2.0 / 8.0, 5.0 / 8.0], 0.01);
    }
}

#[test]
fn a_group_has_its_share_however_many_threads_it_has() {
    for fair in [FairScheduler::Eevdf, FairScheduler::Cfs] {
        let got = shares(1, config(fair), &[hog("one", 100, 1), hog("ten", 100, 10)]);
        assert_shares(&got, &[0.5, 0.5], 0.01);
    }
}

#[test]
fn nice_values_have_the_kernels_weights() {
    let nice =
        |name: &str, nice: i8| WorkloadSpec { scheduling: SchedClass::Fair { nice, slice: None }, ..hog(name, 100, 1) };
    // Nice values count within a group only: here both groups are equal.
    let got = shares(1, config(FairScheduler::Eevdf), &[nice("a", 0), nice("b", 5)]);
    assert_shares(&got, &[0.5, 0.5], 0.01);
    // Within one: 1024 to 335, the kernel's weights of nice 0 and 5.
    for fair in [FairScheduler::Eevdf, FairScheduler::Cfs] {
        let both = WorkloadSpec { nice: vec![0, 5], ..hog("both", 100, 2) };
        let mut sim = Sim::new(Topology::synthetic(1, 1, 1, 1), config(fair), &[both], 1).unwrap();
        sim.begin();
        sim.run_until(Nanos::from_secs(10));
        let got = [0, 1].map(|task| sim.kernel().run_time(TaskId(task)) as f64 / 10e9);
        assert_shares(&got, &[1024.0 / 1359.0, 335.0 / 1359.0], 0.01);
    }
}

#[test]
fn a_quota_is_kept_whoever_else_is_idle() {
    for fair in [FairScheduler::Eevdf, FairScheduler::Cfs] {
        for (cpus, threads, quota) in [(1, 1, 300), (1, 3, 500), (4, 4, 1500), (4, 8, 2500)] {
            let limited = WorkloadSpec { quota: Some(CpuCount(quota)), ..hog("limited", 100, threads) };
            let got = shares(cpus, config(fair), &[limited]);
            assert_shares(&got, &[f64::from(quota) / 1000.0], 0.01);
        }
    }
}

#[test]
fn what_a_quota_leaves_others_get() {
    let limited = WorkloadSpec { quota: Some(CpuCount(250)), ..hog("limited", 10_000, 1) };
    let got = shares(1, config(FairScheduler::Eevdf), &[limited, hog("rest", 1, 2)]);
    assert_shares(&got, &[0.25, 0.75], 0.01);
}

#[test]
fn idle_groups_get_next_to_nothing_beside_others() {
    for preemption in [PreemptionMode::Lazy, PreemptionMode::Full] {
        let idle = WorkloadSpec { idle: true, ..hog("idle", 100, 4) };
        let config = KernelConfig { preemption, ..config(FairScheduler::Eevdf) };
        let got = shares(1, config, &[hog("normal", 100, 1), idle]);
        // 3 : 1024
        assert!(got[1] > 0.0 && got[1] < 0.01, "{got:?}");
    }
}

/// rKube, Table 2 and Figure 3 as drawn: 3 CPUs, target T with one thread and weight 1024, neighbour N with three
/// threads and 2048, T and N1 on CPU 0.
fn figure3(config: KernelConfig, quota: Option<CpuCount>) -> f64 {
    let on = |cpu: &str| CpuList(cpu.parse().unwrap());
    let target = WorkloadSpec { affinity: vec![on("0")], ..hog("T", 100, 1) };
    let neighbour = WorkloadSpec { affinity: vec![on("0"), on("1"), on("2")], quota, ..hog("N", 200, 3) };
    shares(3, config, &[target, neighbour])[0]
}

#[test]
fn rkube_figure_3a_burstable_neighbour_leaves_60_percent() {
    for fair in [FairScheduler::Eevdf, FairScheduler::Cfs] {
        assert_shares(&[figure3(config(fair), None)], &[0.6], 0.01);
    }
}

/// The drawing knows no pieces of quota: with the kernel's 5 ms, N1 still has some when the others have none left, and
/// takes it from T.
#[test]
fn rkube_figure_3b_capped_neighbour_leaves_two_thirds() {
    for fair in [FairScheduler::Eevdf, FairScheduler::Cfs] {
        let quota = Some(CpuCount::whole(2));
        let fine = Nanos::from_micros(100);
        let drawn = KernelConfig { bandwidth_slice: fine, tick: fine, ..config(fair) };
        assert_shares(&[figure3(drawn, quota)], &[2.0 / 3.0], 0.01);
        let got = figure3(config(fair), quota);
        assert!((0.62..0.66).contains(&got), "{got}");
    }
}
