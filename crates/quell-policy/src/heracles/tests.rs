//! A service on a simulated machine, with best-effort work beside it.

use quell_model::{CpuCount, Slo, Stack, Topology};
use quell_sim::contention::ProfileName;
use quell_sim::host::drive;
use quell_sim::workload::Arrivals;
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

use super::*;

fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// Eight CPUs; a service at this load of 4 CPUs with this SLO, and eight streaming threads.
fn after(seconds: u64, load: f64, slo: Nanos, config: HeraclesConfig) -> (SimHost, Stack<Heracles>) {
    let profile = |name: &str| Some(ProfileName::Known(name.into()));
    let per_second = load * 4.0 / 1e-3;
    let service = WorkloadSpec {
        slo: Some(Slo { quantile: 0.99, bound: slo }),
        profile: profile("memcached"),
        ..WorkloadSpec::lc("service", CpuCount::whole(4)).serving(8, Arrivals::Poisson(per_second), millis(1))
    };
    let batch = WorkloadSpec { profile: profile("streaming"), ..WorkloadSpec::be("batch").busy(8) };
    let all = [service, batch];
    let mut host = SimHost::new(Topology::synthetic(1, 1, 8, 1), KernelConfig::default(), &all, 1, false).unwrap();
    let mut stack = Stack::of_one(Heracles::new(config), host.view());
    drive(&mut host, &mut stack, Nanos::from_secs(seconds), |_, _| {});
    (host, stack)
}

fn quick(form: Form) -> HeraclesConfig {
    let second = Nanos::from_secs(1);
    HeraclesConfig { form, interval: second, subinterval: second, peak_rate: 4000.0, ..HeraclesConfig::default() }
}

#[test]
fn best_effort_work_grows_while_there_is_slack() {
    // Later it would have taken more cores than the service can spare, and its queue is endless: slack falls too late.
    let (host, stack) = after(6, 0.5, millis(100), quick(Form::Prose));
    let (cores, _) = stack.first().policy.best_effort().expect("it is on");
    assert!(cores >= 2, "{cores}");
    assert_eq!(host.cpus_of(quell_model::WorkloadId(1)).len(), cores as usize);
    assert!(host.cpus_of(quell_model::WorkloadId(0)).is_disjoint(&host.cpus_of(quell_model::WorkloadId(1))));
}

#[test]
fn a_missed_slo_switches_it_off_for_the_cooldown_but_for_the_thesis_form() {
    let tight = Nanos::from_micros(1200);
    let config = |form| HeraclesConfig { cooldown: Nanos::from_secs(300), ..quick(form) };
    let (_, stack) = after(8, 0.5, tight, config(Form::Prose));
    assert_eq!(stack.first().policy.best_effort(), None);
    assert!(stack.first().policy.off_until > Nanos::from_secs(290));
    let (_, stack) = after(8, 0.5, tight, config(Form::Thesis));
    assert_eq!(stack.first().policy.off_until, Nanos::ZERO);
}

#[test]
fn without_a_service_best_effort_work_has_all_cpus() {
    let all = [WorkloadSpec::be("batch").busy(8)];
    let mut host = SimHost::new(Topology::synthetic(1, 1, 8, 1), KernelConfig::default(), &all, 1, false).unwrap();
    let mut stack = Stack::of_one(Heracles::new(quick(Form::Prose)), host.view());
    drive(&mut host, &mut stack, Nanos::from_secs(3), |_, _| {});
    assert_eq!(host.cpus_of(quell_model::WorkloadId(0)).len(), 8);
    assert!(!stack.first().policy.is_off(stack.view()), "it is not paused");
}

#[test]
fn at_high_load_it_is_off() {
    let (_, stack) = after(6, 0.95, millis(1000), quick(Form::Prose));
    assert_eq!(stack.first().policy.best_effort(), None);
}
