//! Virtual machines: two levels of scheduling, and what lies between them.

use proptest::prelude::*;
use quell_model::{Class, CpuCount, CpuSet, Nanos, Policy, PreemptionMode, Stack, Topology};
use quell_policy::AnyPolicy;
use quell_sim::host::drive;
use quell_sim::vm::VmStats;
use quell_sim::workload::graph::GraphSpec;
use quell_sim::workload::{
    Arrivals, BatchSpec, CpuList, Dispatch, ParallelSpec, PeriodicSpec, ServerSpec, Service, WorkloadStats,
};
use quell_sim::{Costs, Interrupts, KernelConfig, Population, Sim, SimHost, VmSpec, WorkloadSpec};

const SECONDS: u64 = 10;

fn free() -> KernelConfig {
    KernelConfig { costs: Costs::FREE, ..KernelConfig::default() }
}

fn vm(name: &str, vcpus: u32, kernel: &KernelConfig) -> VmSpec {
    VmSpec { kernel: kernel.clone(), ..VmSpec::new(name, vcpus) }
}

/// vCPU n runs on CPU n of the host only.
fn pinned(vm: VmSpec) -> VmSpec {
    let affinity = vm.online().iter().map(|cpu| CpuList(CpuSet::one(cpu))).collect();
    VmSpec { affinity, ..vm }
}

fn inside(vm: &str, workload: WorkloadSpec) -> WorkloadSpec {
    WorkloadSpec { vm: Some(vm.into()), ..workload }
}

fn hog(name: &str, weight: u32, threads: u32) -> WorkloadSpec {
    let batch = Some(BatchSpec::default());
    WorkloadSpec { weight, threads, batch, ..WorkloadSpec::new(name, Class::BestEffort) }
}

fn server(name: &str, threads: u32, rate: f64, service: Service) -> WorkloadSpec {
    let server = Some(ServerSpec { arrivals: Arrivals::Poisson(rate), service, dispatch: Dispatch::Pool });
    WorkloadSpec { threads, server, ..WorkloadSpec::new(name, Class::LatencyCritical) }
}

fn run(cpus: u32, config: &KernelConfig, vms: &[VmSpec], workloads: &[WorkloadSpec]) -> (Sim, Vec<WorkloadStats>) {
    let mut sim = Sim::new(
        Topology::synthetic(1, 1, cpus, 1),
        config.clone(),
        Population { workloads, vms, requests: &GraphSpec::NONE },
        1,
    )
    .unwrap();
    sim.begin();
    sim.run_until(Nanos::from_secs(1));
    sim.end_warm_up();
    sim.run_until(Nanos::from_secs(1 + SECONDS));
    let stats = sim.stats();
    (sim, stats)
}

fn cpus(time: u64) -> f64 {
    time as f64 / (SECONDS * 1_000_000_000) as f64
}

fn p99(stats: &WorkloadStats) -> f64 {
    stats.latencies.quantile(0.99).0 as f64
}

#[test]
fn vms_share_the_host_by_weight_and_their_threads_by_the_guests_weights() {
    let vms = [vm("a", 2, &free()), VmSpec { weight: 300, ..vm("b", 2, &free()) }];
    let workloads = [
        inside("a", hog("a1", 100, 2)),
        inside("a", hog("a2", 100, 4)),
        inside("b", hog("b1", 100, 2)),
        inside("b", hog("b2", 400, 2)),
    ];
    let (sim, stats) = run(2, &free(), &vms, &workloads);
    let got: Vec<f64> = stats.iter().map(|stats| cpus(stats.run_time)).collect();
    for (got_one, wanted) in got.iter().zip([0.25, 0.25, 0.3, 1.2]) {
        assert!((got_one / wanted - 1.0).abs() < 0.02, "{got:?}");
    }
    let vms: Vec<f64> = sim.vm_stats().iter().map(|vm| cpus(vm.run_time)).collect();
    assert!((vms[0] - 0.5).abs() < 0.01 && (vms[1] - 1.5).abs() < 0.01, "{vms:?}");
}

#[test]
fn an_idle_vm_costs_nothing() {
    let workloads = [server("server", 2, 5_000.0, Service::Exponential(Nanos::from_micros(100))), hog("hog", 1, 2)];
    let config = KernelConfig::default();
    let (bare, alone) = run(2, &config, &[], &workloads);
    let (sim, beside) = run(2, &config, &[vm("idle", 8, &config)], &workloads);
    assert_eq!(sim.vm_stats(), [VmStats::default()]);
    assert_eq!(bare.counters(), sim.counters());
    for (alone, beside) in alone.iter().zip(&beside) {
        assert_eq!((alone.run_time, alone.run_delay), (beside.run_time, beside.run_delay));
        assert_eq!(alone.latencies.mean(), beside.latencies.mean());
    }
}

#[test]
fn a_pinned_vm_on_cpus_of_its_own_is_as_the_bare_machine_within_the_costs() {
    let workloads = [
        server("server", 4, 10_000.0, Service::Exponential(Nanos::from_micros(100))),
        server("rare", 2, 200.0, Service::Lognormal { mean: Nanos::from_micros(500), sigma: 1.0 }),
    ];
    let in_vm = workloads.clone().map(|spec| inside("vm", spec));
    for interrupts in [Interrupts::Spread, Interrupts::LastCpu, Interrupts::Elsewhere] {
        // Without mechanisms: with them p99 differed (1.49 ms bare, 1.07 in the VM, one seed). Host and guest draw their phases of
        // ticks apart; whether that is all of it was not looked for.
        let free = KernelConfig { interrupts, ..KernelConfig::plain() };
        let (_, bare) = run(2, &free, &[], &workloads);
        let (_, guest) = run(2, &free, &[pinned(vm("vm", 2, &free))], &in_vm);
        for (bare, guest) in bare.iter().zip(&guest) {
            assert!((p99(guest) / p99(bare) - 1.0).abs() < 0.02, "{interrupts:?}: {} {}", p99(bare), p99(guest));
            assert_eq!(bare.latencies.count(), guest.latencies.count());
        }
        let costly = KernelConfig { interrupts, costs: Costs::default(), ..KernelConfig::plain() };
        let (_, bare) = run(2, &costly, &[], &workloads);
        let (_, guest) = run(2, &costly, &[pinned(vm("vm", 2, &costly))], &in_vm);
        // An interrupt, an entry and a switch more, twice where one vCPU takes the interrupt and wakes another; and the
        // queue that this makes.
        for (bare, guest) in bare.iter().zip(&guest) {
            let more = guest.latencies.mean().0 as f64 - bare.latencies.mean().0 as f64;
            assert!((0.0..30_000.0).contains(&more), "{interrupts:?}: {more}");
            assert!(p99(guest) < 1.1 * p99(bare), "{interrupts:?}: {} {}", p99(bare), p99(guest));
        }
    }
}

#[test]
fn what_a_halted_vcpu_costs_is_in_the_latency() {
    let config = |costs: Costs| KernelConfig { costs, interrupts: Interrupts::LastCpu, ..KernelConfig::default() };
    let work = Nanos::from_micros(50);
    let latency = |costs: Costs| {
        let task = WorkloadSpec {
            periodic: Some(PeriodicSpec {
                period: Nanos::from_millis(10),
                work: Service::Constant(work),
                offset: Nanos::from_millis(1),
                stagger: Nanos::ZERO,
                later: None,
                deadline: None,
            }),
            ..WorkloadSpec::new("task", Class::LatencyCritical)
        };
        let vms = [vm("vm", 1, &config(Costs::FREE))];
        let (sim, stats) = run(1, &config(costs), &vms, &[inside("vm", task)]);
        assert_eq!((sim.vm_stats()[0].halts, sim.vm_stats()[0].interrupts), (1000, 1000));
        (stats[0].latencies.mean() - work).0
    };
    assert_eq!(latency(Costs::FREE), 0);
    assert_eq!(latency(Costs { ipi: Nanos(3_000), ..Costs::FREE }), 3_000);
    assert_eq!(latency(Costs { ipi: Nanos(3_000), vm_entry: Nanos(700), ..Costs::FREE }), 3_700);
    assert_eq!(latency(Costs { idle_exit: Nanos(2_000), vm_entry: Nanos(700), ..Costs::FREE }), 2_700);
    assert_eq!(latency(Costs { halt: Nanos(5_000), ..Costs::FREE }), 0);
}

/// A vCPU that shares its CPU with a hog is away for the hog's slice, in the middle of whatever its guest does.
#[test]
fn a_stolen_slice_of_the_host_is_in_the_guests_tail() {
    let workloads =
        [inside("vm", server("server", 1, 300.0, Service::Constant(Nanos::from_millis(1)))), hog("hog", 100, 1)];
    let slice = Nanos::from_millis(6);
    let host = KernelConfig { base_slice: Some(slice), preemption: PreemptionMode::Full, ..free() };
    let vms = [vm("vm", 1, &free())];
    let (_, alone) = run(1, &host, &vms, &workloads[..1]);
    let (sim, stolen) = run(1, &host, &vms, &workloads);
    let more = p99(&stolen[0]) - p99(&alone[0]);
    assert!((0.7..2.5).contains(&(more / slice.0 as f64)), "{} {}", p99(&alone[0]), p99(&stolen[0]));
    assert!(cpus(sim.vm_stats()[0].run_delay) > 0.05);
    // The guest's own clock leaves the stolen time out: its thread had its CPU as soon as it wanted it.
    assert!(cpus(stolen[0].run_time) > 0.29 && cpus(stolen[0].run_time) < 0.31);
}

/// The others wait at the barrier for the one whose vCPU was taken away.
#[test]
fn one_stolen_vcpu_delays_all_at_the_barrier() {
    let parallel = ParallelSpec::new(10, Service::Constant(Nanos::from_millis(1)));
    let job = WorkloadSpec { threads: 4, parallel: Some(parallel), ..WorkloadSpec::new("job", Class::BestEffort) };
    let on_first = WorkloadSpec { affinity: vec![CpuList(CpuSet::first(1))], ..hog("hog", 100, 1) };
    let config = KernelConfig { balance: false, ..free() };
    let vms = [pinned(vm("vm", 4, &config))];
    let (_, alone) = run(4, &config, &vms, &[inside("vm", job.clone())]);
    let (sim, beside) = run(4, &config, &vms, &[inside("vm", job), on_first]);
    let slower = beside[0].latencies.mean().0 as f64 / alone[0].latencies.mean().0 as f64;
    assert!(slower > 1.5, "{slower}");
    // Three vCPUs of four idle half of the time and more, although no one takes their CPUs.
    assert!(cpus(sim.vm_stats()[0].run_time) < 2.5, "{:?}", sim.vm_stats());
}

#[test]
fn a_vms_quota_holds_for_all_that_runs_in_it() {
    let vms = [VmSpec { quota: Some(CpuCount(1500)), ..vm("vm", 4, &free()) }];
    let workloads = [inside("vm", hog("a", 100, 4)), inside("vm", hog("b", 200, 4)), hog("outside", 100, 1)];
    let (sim, stats) = run(4, &free(), &vms, &workloads);
    assert!((cpus(sim.vm_stats()[0].run_time) / 1.5 - 1.0).abs() < 0.01, "{:?}", sim.vm_stats());
    assert!((cpus(stats[1].run_time) / 1.0 - 1.0).abs() < 0.05, "{}", cpus(stats[1].run_time));
    assert!(cpus(stats[2].run_time) > 0.99);
}

#[test]
fn a_slower_cpu_slows_the_guest() {
    let task = inside("vm", server("server", 1, 100.0, Service::Constant(Nanos::from_millis(1))));
    let mut sim = Sim::new(
        Topology::synthetic(1, 1, 1, 1),
        free(),
        Population { workloads: &[task], vms: &[vm("vm", 1, &free())], requests: &GraphSpec::NONE },
        1,
    )
    .unwrap();
    sim.begin();
    sim.set_frequency(quell_model::CpuId(0), 1_050_000);
    sim.run_until(Nanos::from_secs(1));
    let fastest = sim.stats()[0].latencies.quantile(0.0).0 as f64;
    assert!((fastest / 2e6 - 1.0).abs() < 0.01, "{fastest}");
}

#[test]
fn policies_run_unchanged_on_a_host_with_vms() {
    let config = KernelConfig::default();
    let critical = VmSpec { cpus: CpuCount::whole(4), ..vm("critical", 4, &config) };
    let greedy = VmSpec { class: Class::BestEffort, ..vm("greedy", 8, &config) };
    let vms = [critical, greedy];
    let workloads = [
        inside("critical", server("server", 8, 20_000.0, Service::Exponential(Nanos::from_micros(50)))),
        inside("greedy", hog("batch", 100, 16)),
        hog("on host", 100, 2),
    ];
    for policy in AnyPolicy::ALL {
        let trace = || {
            let mut policy = AnyPolicy::named(policy.name).unwrap();
            let grants = policy.describe().grants;
            let topology = Topology::synthetic(1, 1, 4, 2);
            let mut host = SimHost::new(
                topology,
                config.clone(),
                Population { workloads: &workloads, vms: &vms, requests: &GraphSpec::NONE },
                3,
                grants,
            )
            .unwrap();
            let mut stack = Stack::of_one(&mut policy, host.view());
            drive(&mut host, &mut stack, Nanos::from_millis(4_000), |_, _| {});
            let stats = host.sim().stats();
            (stats[0].latencies.count(), stats[0].latencies.mean(), stats[1].run_time, host.sim().counters())
        };
        let first = trace();
        assert!(first.0 > 70_000, "{}: {first:?}", policy.name);
        assert!(first.2 > 4_000_000_000, "{}: {first:?}", policy.name);
        assert_eq!(first, trace(), "{}", policy.name);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |vms: &[VmSpec], workloads: &[WorkloadSpec]| {
        Sim::new(Topology::synthetic(1, 1, 2, 1), free(), Population { workloads, vms, requests: &GraphSpec::NONE }, 1)
            .unwrap_err()
            .to_string()
    };
    let one = || vm("one", 2, &free());
    assert!(refused(&[one()], &[inside("two", hog("a", 100, 1))]).contains("no VM 'two'"));
    assert!(refused(&[one(), one()], &[]).contains("'one'"));
    assert!(refused(&[one()], &[hog("one", 100, 1)]).contains("'one'"));
    assert!(refused(&[VmSpec { vcpus: 0, ..one() }], &[]).contains("vCPUs"));
    let third = vec![CpuList("2".parse().unwrap())];
    assert!(refused(&[VmSpec { affinity: third.clone(), ..one() }], &[]).contains("0-1"));
    let beyond = WorkloadSpec { affinity: third, ..inside("one", hog("a", 100, 1)) };
    assert!(refused(&[one()], &[beyond]).contains("'a'"));
}

fn any_workload(number: usize) -> impl Strategy<Value = WorkloadSpec> {
    let work = (20u64..3_000).prop_map(Nanos::from_micros);
    (0..4, 1u32..5, 10.0..600.0f64, work, 50u32..400).prop_map(move |(kind, threads, rate, work, weight)| {
        let name = format!("w{number}");
        match kind {
            0 => WorkloadSpec { weight, ..hog(&name, 100, threads) },
            1 => WorkloadSpec {
                threads,
                parallel: Some(ParallelSpec::new(3, Service::Exponential(work))),
                ..WorkloadSpec::new(name, Class::BestEffort)
            },
            2 => WorkloadSpec {
                threads,
                periodic: Some(PeriodicSpec {
                    period: Nanos::from_millis(9),
                    work: Service::Exponential(work),
                    offset: Nanos::ZERO,
                    stagger: Nanos::from_micros(700),
                    later: None,
                    deadline: None,
                }),
                ..WorkloadSpec::new(name, Class::LatencyCritical)
            },
            _ => server(&name, threads, rate, Service::Exponential(work)),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What a VM's vCPUs ran on the host is what its guest's threads ran, and, where things cost, what halting cost.
    #[test]
    fn cpu_time_is_the_same_on_both_levels(
        host in 1u32..5,
        vcpus in 1u32..5,
        full in any::<bool>(),
        costly in any::<bool>(),
        workloads in (any_workload(0), any_workload(1), any_workload(2), any_workload(3)),
    ) {
        let preemption = if full { PreemptionMode::Full } else { PreemptionMode::Lazy };
        let costs = if costly { Costs::default() } else { Costs::FREE };
        let config = KernelConfig { preemption, costs, ..KernelConfig::default() };
        let vms = [vm("a", vcpus, &config), VmSpec { weight: 300, ..vm("b", 2, &config) }];
        let (one, two, three, four) = workloads;
        let workloads = [inside("a", one), inside("a", two), inside("b", three), four];
        let mut sim = Sim::new(Topology::synthetic(1, 1, host, 1), config, Population { workloads: &workloads, vms: &vms, requests: &GraphSpec::NONE }, 1).unwrap();
        sim.begin();
        sim.run_until(Nanos::from_millis(1_500));
        let (stats, vms) = (sim.stats(), sim.vm_stats());
        let guests = [stats[0].run_time + stats[1].run_time, stats[2].run_time];
        for (vm, guest) in vms.iter().zip(guests) {
            prop_assert!(guest <= vm.run_time, "{guest} in the guest, {vm:?}");
            let lost = vm.run_time - guest;
            if costly {
                // A halt, and what it takes to come back: a switch of the host, which a tick may lengthen.
                prop_assert!(lost <= (vm.halts + 4) * 12_000, "{lost} lost, {vm:?}");
            } else {
                prop_assert_eq!(lost, 0, "{:?}", vm);
            }
        }
        for (number, vcpus) in [(0, vcpus), (1, 2)] {
            let busy = sim.guest(number).unwrap().busy_time();
            prop_assert_eq!(busy, guests[number]);
            prop_assert!(busy <= u64::from(vcpus) * 1_500_000_000);
        }
    }
}
