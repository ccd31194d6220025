//! A GPU on the machine's memory: its queue, its frequency, and what it and the CPUs take from each other.

use std::collections::BTreeMap;

use quell_model::{
    BytesPerSecond, Class, Event, Host, Knob, KnobSetting, Nanos, Plan, Stack, Target, Verdict, WorkloadId,
};
use quell_policy::AnyPolicy;
use quell_sim::contention::ProfileName;
use quell_sim::host::drive;
use quell_sim::machine::{Machine, Preset};
use quell_sim::workload::graph::{Clients, GraphSpec, RequestSpec, StageSpec, Step};
use quell_sim::workload::{Arrivals, Service};
use quell_sim::{Costs, KernelConfig, Population, Sim, SimHost, WorkloadSpec};

fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

fn jetson() -> Machine {
    Preset::named("edgeiso").unwrap().machine()
}

fn free() -> KernelConfig {
    KernelConfig { costs: Costs::FREE, ..KernelConfig::default() }
}

fn known(profile: &str) -> Option<ProfileName> {
    Some(ProfileName::Known(profile.into()))
}

fn pool(name: &str, threads: u32) -> WorkloadSpec {
    WorkloadSpec {
        threads,
        pool: Some(BTreeMap::new()),
        profile: known("computing"),
        ..WorkloadSpec::new(name, Class::LatencyCritical)
    }
}

/// One client after the other: 10 ms on a CPU, then this on the GPU.
fn detection(on: &str, gpu: Nanos, moves: f64) -> RequestSpec {
    let steps =
        vec![Step::Work(Service::Constant(millis(10))), Step::Gpu(Service::Constant(gpu), BytesPerSecond(moves))];
    let stage = StageSpec { name: "detect".into(), on: on.into(), after: Vec::new(), profile: None, steps };
    RequestSpec {
        name: on.into(),
        copies: 1,
        arrivals: None,
        clients: Some(Clients { number: 1, think: Service::Constant(Nanos(1)) }),
        at_most: None,
        stages: vec![stage],
    }
}

fn host(workloads: &[WorkloadSpec], requests: Vec<RequestSpec>) -> SimHost {
    let requests = GraphSpec { requests, locks: Vec::new() };
    SimHost::new(jetson(), free(), Population { workloads, vms: &[], requests: &requests }, 1, false).unwrap()
}

/// Time passes until then.
fn wait(host: &mut SimHost, until: Nanos) {
    let mut stack = Stack::of_one(AnyPolicy::named("none").unwrap(), host.view());
    drive(host, &mut stack, until, |_, _| {});
}

fn set(host: &mut SimHost, target: Target, knob: Knob) -> Verdict {
    let mut events = Vec::new();
    let plan = Plan { knobs: vec![KnobSetting { target, knob }], ..Plan::default() };
    let Ok(()) = host.apply(&plan, &mut events);
    events
        .into_iter()
        .find_map(|event| if let Event::Outcome(outcome) = event { Some(outcome.verdict) } else { None })
        .expect("every plan has an outcome")
}

fn mean_ms(host: &SimHost, workload: usize) -> f64 {
    host.sim().stats()[workload].latencies.mean().0 as f64 / 1e6
}

fn near(value: f64, wanted: f64) {
    assert!((value / wanted - 1.0).abs() < 0.01, "{value} instead of {wanted}");
}

#[test]
fn a_stage_takes_its_time_on_the_gpu_and_leaves_the_cpus_alone_meanwhile() {
    let mut host = host(&[pool("detect", 1)], vec![detection("detect", millis(40), 0.0)]);
    wait(&mut host, Nanos::from_secs(2));
    near(mean_ms(&host, 0), 50.0);
    near(host.sim().gpu_busy() as f64 / 2e9, 0.8);
    near(host.sim().utilisation(), 0.2 / 4.0);
}

#[test]
fn one_piece_of_work_runs_at_a_time() {
    let both = [pool("a", 1), pool("b", 1)];
    let mut host = host(&both, vec![detection("a", millis(40), 0.0), detection("b", millis(40), 0.0)]);
    wait(&mut host, Nanos::from_secs(4));
    near(mean_ms(&host, 0), 80.0);
    near(mean_ms(&host, 1), 80.0);
}

#[test]
fn half_of_the_frequency_is_half_of_the_speed_where_no_memory_is_used() {
    let mut host = host(&[pool("detect", 1)], vec![detection("detect", millis(40), 0.0)]);
    assert!(matches!(set(&mut host, Target::Machine, Knob::GpuFrequencyKhz(650_250)), Verdict::Applied(_)));
    host.end_warm_up();
    wait(&mut host, Nanos::from_secs(4));
    near(mean_ms(&host, 0), 90.0);
    let refused = set(&mut host, Target::Machine, Knob::GpuFrequencyKhz(100_000));
    assert!(matches!(refused, Verdict::Refused(_)), "below the lowest: {refused:?}");
}

#[test]
fn the_gpu_and_the_cpus_slow_each_other_down() {
    let streaming = |threads| WorkloadSpec { profile: known("streaming"), ..WorkloadSpec::be("batch").busy(threads) };
    let run = |batch: u32, moves: f64, khz: u32| {
        let mut workloads = vec![pool("detect", 1)];
        if batch > 0 {
            workloads.push(streaming(batch));
        }
        let mut host = host(&workloads, vec![detection("detect", millis(40), moves)]);
        set(&mut host, Target::Machine, Knob::GpuFrequencyKhz(khz));
        wait(&mut host, Nanos::from_secs(2));
        let done = host.sim().stats().get(1).map_or(0.0, |stats| stats.counted.instructions);
        (mean_ms(&host, 0), done, host.sim().memory_bytes() / 2e9)
    };
    let highest = 1_300_500;
    let (alone, _, moved) = run(0, 20e9, highest);
    near(alone, 50.0);
    near(moved, 0.8 * 20.0);
    let (beside, slowed, _) = run(3, 20e9, highest);
    let (_, free, _) = run(3, 0.0, highest);
    assert!(beside > 1.02 * alone, "{beside} ms beside batch work, {alone} ms alone");
    assert!(slowed < 0.95 * free, "{slowed} instructions beside the GPU's work, {free} without its bytes");
    let (_, relieved, _) = run(3, 20e9, 140_250);
    assert!(relieved > slowed, "a slower GPU leaves more: {relieved} {slowed}");
}

#[test]
fn what_was_submitted_runs_on_when_its_workload_is_paused() {
    let mut host = host(&[pool("detect", 1)], vec![detection("detect", millis(40), 0.0)]);
    wait(&mut host, millis(20));
    set(&mut host, Target::Workload(WorkloadId(0)), Knob::Pause(true));
    wait(&mut host, millis(200));
    assert_eq!(host.sim().gpu_busy(), millis(40).0, "the first is done, and there is no second");
    assert_eq!(host.sim().stats()[0].latencies.count(), 0);
    set(&mut host, Target::Workload(WorkloadId(0)), Knob::Pause(false));
    wait(&mut host, millis(201));
    assert_eq!(host.sim().stats()[0].latencies.count(), 1);
}

#[test]
fn work_for_a_gpu_that_is_not_there_or_never_ends_is_refused_with_the_fix() {
    let refusal = |machine: Machine, mut request: RequestSpec, rate: Option<f64>| {
        if let Some(rate) = rate {
            (request.clients, request.arrivals) = (None, Some(Arrivals::Poisson(rate)));
        }
        let requests = GraphSpec { requests: vec![request], locks: Vec::new() };
        let workloads = [pool("detect", 4)];
        let population = Population { workloads: &workloads, vms: &[], requests: &requests };
        Sim::new(machine, free(), population, 1).err().map(|error| error.to_string())
    };
    let request = || detection("detect", millis(40), 1e9);
    let without = refusal(Machine { gpu: None, ..jetson() }, request(), None).unwrap();
    assert!(without.contains("stage 'detect'") && without.contains("take a machine that has one"), "{without}");
    let endless = refusal(jetson(), request(), Some(30.0)).unwrap();
    assert!(endless.contains("1.20 times the GPU"), "{endless}");
    assert_eq!(refusal(jetson(), request(), Some(20.0)), None);
    assert!(refusal(jetson(), detection("detect", millis(40), -1.0), None).unwrap().contains("not negative"));
}

#[test]
fn answers_are_written_down_one_by_one() {
    let mut host = host(&[pool("detect", 1)], vec![detection("detect", millis(40), 0.0)]);
    host.begin_log();
    wait(&mut host, Nanos::from_secs(1));
    let answered = host.sim().answered(0);
    assert!((18..=20).contains(&answered.len()), "{}", answered.len());
    assert!(answered.iter().all(|(_, latency)| latency.0.abs_diff(millis(50).0) < 500_000));
    assert!(answered.windows(2).all(|pair| pair[0].0 < pair[1].0));
}
