//! Shares by weight, through groups and under quotas, against what the kernel promises, beside those that
//! `quell-lab paper fairness` shows.

use quell_model::{CpuCount, Nanos, PreemptionMode, SchedClass, Topology};
use quell_sim::experiment::shares::{self, Span, hog, kernel};
use quell_sim::workload::GroupSpec;
use quell_sim::{FairScheduler, KernelConfig, Sim, TaskId, WorkloadSpec};

const TEN_SECONDS: Span = Span { seed: 1, length: Nanos::from_secs(10) };

fn assert_shares(cpus: u32, config: KernelConfig, workloads: &[WorkloadSpec], wanted: &[f64]) {
    let got = shares::shares(cpus, config, workloads, TEN_SECONDS).unwrap();
    for (got_one, wanted_one) in got.iter().zip(wanted) {
        assert!((got_one - wanted_one).abs() <= 0.01 * wanted_one, "got {got:?}, wanted {wanted:?}");
    }
}

#[test]
fn a_group_has_its_share_however_many_threads_it_has() {
    for fair in [FairScheduler::Eevdf, FairScheduler::Cfs] {
        assert_shares(1, kernel(fair), &[hog("one", 100, 1), hog("ten", 100, 10)], &[0.5, 0.5]);
    }
}

#[test]
fn nice_values_count_within_a_group_only() {
    let nice =
        |name: &str, nice: i8| WorkloadSpec { scheduling: SchedClass::Fair { nice, slice: None }, ..hog(name, 100, 1) };
    assert_shares(1, kernel(FairScheduler::Eevdf), &[nice("a", 0), nice("b", 5)], &[0.5, 0.5]);
    // Within one: 1024 to 335, the kernel's weights of nice 0 and 5.
    for fair in [FairScheduler::Eevdf, FairScheduler::Cfs] {
        let both = WorkloadSpec { nice: vec![0, 5], ..hog("both", 100, 2) };
        let mut sim = Sim::new(Topology::synthetic(1, 1, 1, 1), kernel(fair), &[both], 1).unwrap();
        sim.begin();
        sim.run_until(Nanos::from_secs(10));
        let got = [0, 1].map(|task| sim.kernel().run_time(TaskId(task)) as f64 / 10e9);
        let wanted = [1024.0 / 1359.0, 335.0 / 1359.0];
        assert!(got.iter().zip(wanted).all(|(got, wanted)| (got / wanted - 1.0).abs() < 0.01), "{got:?}");
    }
}

#[test]
fn what_a_quota_leaves_others_get() {
    let limited = WorkloadSpec { quota: Some(CpuCount(250)), ..hog("limited", 10_000, 1) };
    assert_shares(1, kernel(FairScheduler::Eevdf), &[limited, hog("rest", 1, 2)], &[0.25, 0.75]);
}

#[test]
fn idle_groups_get_next_to_nothing_however_preemption_works() {
    for preemption in [PreemptionMode::Lazy, PreemptionMode::Full] {
        let idle = WorkloadSpec { idle: true, ..hog("idle", 100, 4) };
        let config = KernelConfig { preemption, ..kernel(FairScheduler::Eevdf) };
        let got = shares::shares(1, config, &[hog("normal", 100, 1), idle], TEN_SECONDS).unwrap();
        // 3 : 1024
        assert!(got[1] > 0.0 && got[1] < 0.01, "{got:?}");
    }
}

#[test]
fn a_group_around_others_has_one_weight() {
    let within = |weight: u32, spec: WorkloadSpec| WorkloadSpec {
        within: vec![GroupSpec { name: "pods".into(), weight }],
        ..spec
    };
    let build = |second: u32| {
        let workloads = [within(100, hog("a", 100, 1)), within(second, hog("b", 100, 1))];
        let topology = quell_model::Topology::synthetic(1, 1, 1, 1);
        Sim::new(topology, KernelConfig::default(), &workloads, 1).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(build(100), Ok(()));
    let error = build(200).unwrap_err();
    assert!(error.contains("'b'") && error.contains("'pods'") && error.contains("200"), "{error}");
}
