//! Deferrable servers against the rule's reference function and vas-rtns21.

use proptest::prelude::*;
use quell_model::{
    Class, CpuId, CpuSet, DeferrableServer, Event, GrantCommand, Host, Nanos, Outcome, Plan, Rule, SchedClass,
    Topology, Verdict, WorkloadId,
};
use quell_sim::vm::Deferrable;
use quell_sim::workload::graph::GraphSpec;
use quell_sim::workload::{BatchSpec, CpuList, PeriodicSpec, Service, WorkloadStats};
use quell_sim::{Costs, KernelConfig, Population, RealTimeLimit, Sim, SimHost, VmSpec, WorkloadSpec};

/// Times of random servers are multiples of this.
const UNIT: u64 = 100_000;

fn config() -> KernelConfig {
    KernelConfig { costs: Costs::FREE, real_time_limit: RealTimeLimit::None, ..KernelConfig::default() }
}

fn one_cpu() -> Topology {
    Topology::synthetic(1, 1, 1, 1)
}

fn periodic(name: &str, offset: Nanos, work: Nanos, period: Nanos) -> WorkloadSpec {
    let work = Service::Constant(work);
    let periodic = PeriodicSpec { period, work, offset, stagger: Nanos::ZERO, later: None, deadline: None };
    WorkloadSpec { periodic: Some(periodic), ..WorkloadSpec::new(name, Class::LatencyCritical) }
}

fn hog(name: &str, threads: u32) -> WorkloadSpec {
    WorkloadSpec { threads, batch: Some(BatchSpec::default()), ..WorkloadSpec::new(name, Class::BestEffort) }
}

/// A VM with one vCPU on CPU 0, as a server or not.
fn vm(name: &str, deferrable: Option<Deferrable>) -> VmSpec {
    let affinity = vec![CpuList(CpuSet::first(1))];
    VmSpec { deferrable, affinity, kernel: config(), ..VmSpec::new(name, 1) }
}

fn inside(vm: &str, workload: WorkloadSpec) -> WorkloadSpec {
    WorkloadSpec { vm: Some(vm.into()), ..workload }
}

fn run(vms: &[VmSpec], workloads: &[WorkloadSpec], span: Nanos) -> (Sim, Vec<WorkloadStats>) {
    let mut sim = Sim::new(one_cpu(), config(), Population { workloads, vms, requests: &GraphSpec::NONE }, 1).unwrap();
    sim.begin();
    sim.run_until(span);
    let stats = sim.stats();
    (sim, stats)
}

/// vas-rtns21 Figure 1: work 4 every 8 on a server of 3 every 4 takes 5; a full CPU would take 4.
#[test]
fn the_budget_replenishment_penalty_of_figure_1() {
    let ms = Nanos::from_millis;
    let task = || inside("vm", periodic("task", Nanos::ZERO, ms(4), ms(8)));
    let server = Deferrable { budget: ms(3), period: ms(4), priority: 1 };
    let (_, partial) = run(&[vm("vm", Some(server))], &[task()], ms(799));
    let (_, full) = run(&[vm("vm", None)], &[task()], ms(799));
    // The histogram has three significant digits.
    let near = |latency: Nanos, wanted: u64| (latency.0 as f64 / ms(wanted).0 as f64 - 1.0).abs() < 0.001;
    assert!(near(partial[0].latencies.quantile(0.01), 5) && near(partial[0].latencies.max(), 5));
    assert!(near(full[0].latencies.max(), 4));
}

/// vas-rtns21 §4: four tasks in a VM on a partial CPU with budget P × U have the latencies of a full CPU, whatever shares
/// it (Theorem 4.2); with less they have not.
#[test]
fn a_partial_cpu_with_enough_budget_is_as_a_full_one() {
    let ms = Nanos::from_millis;
    // Γ₁, rate-monotonic priorities in the guest.
    let tasks: Vec<WorkloadSpec> = [(150, 40, 250), (100, 200, 500), (50, 100, 1000), (0, 200, 2000)]
        .into_iter()
        .enumerate()
        .map(|(at, (offset, work, period))| WorkloadSpec {
            scheduling: SchedClass::Fifo { priority: 90 - at as u8 },
            ..inside("time-sensitive", periodic(&format!("t{at}"), ms(offset), ms(work), ms(period)))
        })
        .collect();
    let latencies = |budget: Option<Nanos>, neighbour: bool| {
        let server = budget.map(|budget| Deferrable { budget, period: ms(2000), priority: 2 });
        let general = Deferrable { budget: ms(100), period: ms(200), priority: 1 };
        let mut vms = vec![vm("time-sensitive", server)];
        let mut workloads = tasks.clone();
        if neighbour {
            vms.push(vm("general", Some(general)));
            workloads.push(inside("general", hog("cpu-bound", 2)));
        }
        let (sim, stats) = run(&vms, &workloads, Nanos::from_secs(100));
        let all: Vec<Vec<(Nanos, u64)>> = stats[..4].iter().map(|stats| stats.latencies.cells().collect()).collect();
        (all, sim.vm_stats())
    };
    let (full, _) = latencies(None, false);
    let (partial, vms) = latencies(Some(ms(1520)), true);
    assert_eq!(full, partial);
    let got = |at: usize| vms[at].run_time as f64 / 1e11;
    assert!((got(0) - 0.76).abs() < 0.01, "{vms:?}");
    assert!(got(1) > 0.15, "what is left is the other's: {vms:?}");
    assert_ne!(full, latencies(Some(ms(1400)), true).0);
}

#[test]
fn a_server_ends_its_workloads_service_and_others_go_on() {
    let ms = Nanos::from_millis;
    let greedy = Deferrable { budget: ms(3), period: ms(10), priority: 7 };
    let workloads = [inside("greedy", hog("in vm", 3)), hog("ordinary", 2)];
    let (sim, stats) = run(&[vm("greedy", Some(greedy))], &workloads, Nanos::from_secs(10));
    assert_eq!(sim.vm_stats()[0].run_time, 3_000_000_000);
    assert_eq!(stats[1].run_time, 7_000_000_000);
    // Without others the server's workload waits all the same.
    let (sim, _) = run(&[vm("greedy", Some(greedy))], &workloads[..1], Nanos::from_secs(10));
    assert_eq!(sim.vm_stats()[0].run_time, 3_000_000_000);
}

/// A policy's rule: it stands until it is taken back, and threads of one server take turns.
#[test]
fn policies_set_servers_and_take_them_back() {
    let workloads = [hog("served", 2), hog("ordinary", 1)];
    let mut host = SimHost::new(one_cpu(), config(), &workloads, 1, false).unwrap();
    let rule = |budget, cpu| Rule::Server {
        workload: WorkloadId(0),
        cpu: CpuId(cpu),
        budget,
        period: Nanos::from_millis(10),
        priority: 1,
    };
    let mut ask = |rule: Rule, seconds: u64| {
        let mut plan = Plan::default();
        plan.rules.push(rule);
        let mut events = Vec::new();
        let Ok(()) = host.apply(&plan, &mut events);
        let before: Vec<u64> = host.sim().stats().iter().map(|stats| stats.run_time).collect();
        let until = host.sim().now() + Nanos::from_secs(seconds);
        while host.sim().now() < until {
            let Ok(()) = host.wait(quell_model::Wake::At(until));
            let Ok(()) = host.observe(Default::default(), &mut host.view(), &mut Vec::new());
        }
        let shares = host.sim().stats();
        let share = |at: usize| (shares[at].run_time - before[at]) as f64 / (seconds * 1_000_000_000) as f64;
        (share(0), share(1), events)
    };
    let (served, ordinary, _) = ask(rule(Nanos::from_millis(8), 0), 10);
    assert!((served - 0.8).abs() < 0.01 && (ordinary - 0.2).abs() < 0.01, "{served} {ordinary}");
    let (served, ..) = ask(rule(Nanos::from_millis(1), 0), 10);
    assert!((served - 0.1).abs() < 0.01, "{served}");
    let (served, ..) = ask(rule(Nanos::ZERO, 0), 10);
    assert!((served - 0.5).abs() < 0.01, "{served}");
    let (.., events) = ask(rule(Nanos::ZERO, 3), 1);
    assert!(matches!(events[..], [Event::Outcome(Outcome { verdict: Verdict::Vanished, .. })]), "{events:?}");
}

/// Who owns its CPUs has servers, too: before the holder of the CPU, at once, and only while there is budget.
#[test]
fn where_cpus_belong_to_workloads_a_server_comes_before_the_holder() {
    let task = |name: &str| periodic(name, Nanos::from_millis(3), Nanos::from_millis(4), Nanos::from_millis(20));
    let workloads = [task("served"), hog("batch", 2), hog("greedy", 1)];
    let mut host = SimHost::new(Topology::synthetic(1, 1, 2, 1), config(), &workloads, 1, true).unwrap();
    let server = |id, cpu, budget| Rule::Server {
        workload: WorkloadId(id),
        cpu: CpuId(cpu),
        budget: Nanos::from_millis(budget),
        period: Nanos::from_millis(10),
        priority: 1,
    };
    let mut plan = Plan::default();
    plan.rules.extend([server(0, 0, 5), server(2, 1, 3)]);
    plan.grants.extend([0, 1].map(|cpu| GrantCommand::Grant(CpuId(cpu), WorkloadId(1))));
    let mut received = Vec::new();
    let Ok(()) = host.apply(&plan, &mut received);
    assert!(received.iter().all(|event| matches!(event, Event::Outcome(Outcome { verdict: Verdict::Applied(_), .. }))));
    received.clear();
    let until = Nanos::from_secs(1);
    while host.sim().now() < until {
        let Ok(()) = host.wait(quell_model::Wake::At(until));
        let Ok(()) = host.observe(Default::default(), &mut host.view(), &mut received);
    }
    let stats = host.sim().stats();
    let ran: Vec<u64> = stats.iter().map(|stats| stats.run_time / 1_000_000).collect();
    assert_eq!(ran, [200, 1500, 300]);
    assert_eq!(stats[0].latencies.max(), stats[0].latencies.quantile(0.01), "it never waits");
    let exhausted =
        |id| received.iter().filter(|event| matches!(event, Event::BudgetExhausted(who, ..) if who.0 == id)).count();
    assert_eq!((exhausted(0), exhausted(2)), (0, 100), "the tasks' budget is never used up, the spinning one's always");
}

/// Threads of one latency-critical server run first come, first served, as on a CPU that is granted; those of best-effort
/// work take turns.
#[test]
fn threads_of_a_server_get_what_they_would_get_on_a_granted_cpu() {
    let order = |class, grants: bool| {
        let two = WorkloadSpec { class, ..hog("two", 2) };
        let mut host = SimHost::new(one_cpu(), config(), &[two], 1, grants).unwrap();
        let mut plan = Plan::default();
        match grants {
            true => plan.grants.push(GrantCommand::Grant(CpuId(0), WorkloadId(0))),
            false => plan.rules.push(Rule::Server {
                workload: WorkloadId(0),
                cpu: CpuId(0),
                budget: Nanos::from_millis(100),
                period: Nanos::from_millis(100),
                priority: 1,
            }),
        }
        let Ok(()) = host.apply(&plan, &mut Vec::new());
        let until = Nanos::from_secs(1);
        while host.sim().now() < until {
            let Ok(()) = host.wait(quell_model::Wake::At(until));
            let Ok(()) = host.observe(Default::default(), &mut host.view(), &mut Vec::new());
        }
        host.sim().kernel().counters().switches
    };
    for class in [Class::LatencyCritical, Class::BestEffort] {
        let (served, granted) = (order(class, false), order(class, true));
        assert!(served.abs_diff(granted) <= 2, "{class:?}: {served} and {granted} switches");
    }
    assert!(order(Class::LatencyCritical, false) < 5 && order(Class::BestEffort, false) > 50);
}

/// A policy that says the same again and again, or takes a server back and sets it anew, gives no second budget in a period.
#[test]
fn a_server_that_is_set_again_has_no_second_budget() {
    let got = |again: &[Nanos]| {
        let workloads = [hog("served", 1), hog("ordinary", 1)];
        let mut host = SimHost::new(one_cpu(), config(), &workloads, 1, false).unwrap();
        for turn in 1..1_000 {
            let mut plan = Plan::default();
            let rule = |&budget: &Nanos| Rule::Server {
                workload: WorkloadId(0),
                cpu: CpuId(0),
                budget,
                period: Nanos::from_millis(10),
                priority: 1,
            };
            let first = &[Nanos::from_millis(3)][..];
            plan.rules.extend(if turn == 1 { first } else { again }.iter().map(rule));
            let Ok(()) = host.apply(&plan, &mut Vec::new());
            let until = Nanos::from_micros(1_700 * turn);
            while host.sim().now() < until {
                let Ok(()) = host.wait(quell_model::Wake::At(until));
                let Ok(()) = host.observe(Default::default(), &mut host.view(), &mut Vec::new());
            }
        }
        host.sim().stats()[0].run_time as f64 / host.sim().now().0 as f64
    };
    let (same, other) = (Nanos::from_millis(3), Nanos::from_millis(6));
    for (again, wanted) in [(&[][..], 0.3), (&[same], 0.3), (&[other], 0.6), (&[Nanos::ZERO, same], 0.3)] {
        assert!((got(again) - wanted).abs() < 0.01, "{again:?}: {}", got(again));
    }
}

/// One server with one periodic task, in units.
#[derive(Clone, Copy, Debug)]
struct Case {
    budget: u64,
    period: u64,
    work: u64,
    every: u64,
    offset: u64,
}

fn cases() -> impl Strategy<Value = Vec<Case>> {
    let case = (1u64..8, 0u64..20, 1u64..8, 0u64..40, 0u64..30).prop_map(|(budget, slack, work, more, offset)| Case {
        budget,
        period: budget + slack,
        work,
        every: work + more,
        offset,
    });
    prop::collection::vec(case, 1..5)
}

/// The definition, unit by unit: of the servers that have work and budget, the first runs.
fn by_definition(cases: &[Case], units: u64) -> Vec<u64> {
    let server = |case: &Case| DeferrableServer::new(Nanos(case.budget), Nanos(case.period), Nanos(0));
    let mut servers: Vec<DeferrableServer> = cases.iter().map(server).collect();
    let (mut pending, mut ran) = (vec![0; cases.len()], vec![0; cases.len()]);
    for now in 0..units {
        for (case, pending) in cases.iter().zip(&mut pending) {
            if now >= case.offset && (now - case.offset) % case.every == 0 {
                *pending += case.work;
            }
        }
        let runs = (0..cases.len()).find(|&at| pending[at] > 0 && servers[at].left(Nanos(now)) > Nanos::ZERO);
        if let Some(at) = runs {
            servers[at].ran(Nanos(1), Nanos(now + 1));
            (pending[at], ran[at]) = (pending[at] - 1, ran[at] + 1);
        }
    }
    ran
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn servers_run_as_the_reference_function_says(cases in cases(), checks in prop::collection::vec(1u64..2_000, 3)) {
        let at = |units: u64| Nanos(units * UNIT);
        let (mut vms, mut workloads) = (Vec::new(), vec![hog("rest", 1)]);
        for (number, case) in cases.iter().enumerate() {
            let name = format!("vm{number}");
            let priority = (cases.len() - number) as u32;
            vms.push(vm(&name, Some(Deferrable { budget: at(case.budget), period: at(case.period), priority })));
            let task = periodic(&format!("task{number}"), at(case.offset), at(case.work), at(case.every));
            workloads.push(inside(&name, task));
        }
        let mut sim = Sim::new(one_cpu(), config(), Population { workloads: &workloads, vms: &vms, requests: &GraphSpec::NONE }, 1).unwrap();
        sim.begin();
        let mut checks = checks;
        checks.sort_unstable();
        for units in checks {
            sim.run_until(at(units));
            let ran: Vec<u64> = sim.vm_stats().iter().map(|vm| vm.run_time / UNIT).collect();
            prop_assert_eq!(&ran, &by_definition(&cases, units), "{:?} after {}", cases, units);
            let rest = units - ran.iter().sum::<u64>();
            prop_assert_eq!(sim.stats()[0].run_time, rest * UNIT);
        }
    }
}
