//! Every policy runs unchanged on the simulated host.

use std::path::Path;

use quell_model::{Class, CpuCount, Nanos, Policy, Reservation, SchedClass, Slo, Stack, Topology, WorkloadId};
use quell_policy::AnyPolicy;
use quell_sim::contention::MeasuredOfMemory;
use quell_sim::host::{Lending, capabilities, drive};
use quell_sim::scenario::{SHIPPED, Scenario};
use quell_sim::workload::{Arrivals, BatchSpec, Dispatch, ServerSpec, Service};
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

fn server(name: &str, threads: u32, cpus: u32, rate: f64) -> WorkloadSpec {
    WorkloadSpec {
        threads,
        cpus: CpuCount::whole(cpus),
        slo: Some(Slo { quantile: 0.99, bound: Nanos::from_millis(1) }),
        reservation: if cpus > 0 { Reservation::Strict } else { Reservation::Standard },
        server: Some(ServerSpec {
            arrivals: Arrivals::Poisson(rate),
            service: Service::Exponential(Nanos::from_micros(50)),
            dispatch: Dispatch::Pool,
        }),
        ..WorkloadSpec::new(name, Class::LatencyCritical)
    }
}

fn hogs(name: &str, threads: u32) -> WorkloadSpec {
    WorkloadSpec { threads, batch: Some(BatchSpec::default()), ..WorkloadSpec::new(name, Class::BestEffort) }
}

struct Ran {
    p99: Nanos,
    completed: u64,
    hog_cpus: f64,
    host: SimHost,
}

fn run(name: &str, topology: Topology, workloads: &[WorkloadSpec], span: Nanos) -> Ran {
    let mut policy = AnyPolicy::named(name).unwrap();
    let grants = policy.describe().grants;
    let fidelity = capabilities(grants.into(), MeasuredOfMemory::Nothing).fidelity(policy.describe());
    assert!(fidelity.missing.is_empty(), "{name}: {:?}", fidelity.missing);
    let mut host = SimHost::new(topology, KernelConfig::default(), workloads, 7, grants).unwrap();
    let mut stack = Stack::of_one(&mut policy, host.view());
    let warm_up = Nanos::from_millis(100);
    drive(&mut host, &mut stack, warm_up, |_, _| {});
    host.end_warm_up();
    drive(&mut host, &mut stack, warm_up + span, |_, _| {});
    let stats = host.sim().stats();
    let hog_time: u64 =
        stats.iter().zip(workloads).filter(|(_, spec)| spec.batch.is_some()).map(|(s, _)| s.run_time).sum();
    Ran {
        p99: stats[0].latencies.quantile(0.99),
        completed: stats[0].latencies.count(),
        hog_cpus: hog_time as f64 / span.0 as f64,
        host,
    }
}

#[test]
fn all_policies_run_on_8_48_and_80_cpus() {
    let machines =
        [Topology::synthetic(1, 1, 8, 1), Topology::synthetic(2, 1, 12, 2), Topology::synthetic(4, 1, 20, 1)];
    for topology in machines {
        let cpus = topology.all().len() as u32;
        let rate = f64::from(cpus) * 0.2 / 50e-6;
        let workloads = [server("lc", cpus / 2, cpus / 2, rate), hogs("be", cpus)];
        let pairs = !topology.siblings_of(quell_model::CpuId(0)).is_empty();
        // Elfen's best-effort work runs on second hyperthreads alone.
        for policy in AnyPolicy::ALL.iter().filter(|policy| policy.name != "elfen" || pairs) {
            // HIS and EdgeIso begin with solo runs of up to two seconds.
            let begins_alone = ["his", "edgeiso"].contains(&policy.name);
            let span = Nanos::from_millis(if begins_alone { 4_000 } else { 200 });
            let ran = run(policy.name, topology.clone(), &workloads, span);
            let expected = rate * span.as_secs_f64();
            assert!(
                ran.completed as f64 > 0.9 * expected,
                "{} on {cpus}: {} of {expected}",
                policy.name,
                ran.completed
            );
            assert!(ran.hog_cpus > 0.2 * f64::from(cpus), "{} on {cpus}: {}", policy.name, ran.hog_cpus);
        }
    }
}

#[test]
fn protecting_policies_protect_and_caladan_gives_the_rest_away() {
    let topology = || Topology::synthetic(1, 1, 8, 1);
    let workloads = [server("lc", 4, 4, 16_000.0), hogs("be", 16)];
    let span = Nanos::from_secs(1);
    let none = run("none", topology(), &workloads, span);
    let alone = run("none", topology(), &workloads[..1], span);
    for name in ["rkube", "guard", "caladan"] {
        let ran = run(name, topology(), &workloads, span);
        assert!(ran.p99 < Nanos(none.p99.0 / 4), "{name}: {} against {} of Linux", ran.p99, none.p99);
        assert!(ran.p99 < Nanos(alone.p99.0 * 3), "{name}: {} against {} alone", ran.p99, alone.p99);
    }
    let (rkube, caladan) = (run("rkube", topology(), &workloads, span), run("caladan", topology(), &workloads, span));
    assert!(caladan.hog_cpus > rkube.hog_cpus + 1.0, "{} against {}", caladan.hog_cpus, rkube.hog_cpus);
    assert!(!caladan.host.held(WorkloadId(1)).is_empty());
}

#[test]
fn guard_makes_latency_critical_threads_real_time() {
    let workloads = [server("lc", 4, 4, 16_000.0), hogs("be", 16)];
    let ran = run("guard", Topology::synthetic(1, 1, 8, 1), &workloads, Nanos::from_millis(200));
    let mut view = ran.host.view();
    let mut host = ran.host;
    let wanted = quell_model::SignalSet::of(&[quell_model::Signal::Threads]);
    let Ok(()) = quell_model::Host::observe(&mut host, wanted, &mut view, &mut Vec::new());
    let of = |id| view.threads.class.iter().zip(&view.threads.workload).filter(move |&(_, of)| *of == WorkloadId(id));
    assert!(of(0).all(|(class, _)| matches!(class, SchedClass::Fifo { .. })));
    assert_eq!(view.threads.len(), 20);
}

/// Services, runtimes, closed loops, periodic tasks, request chains and batch jobs, a hundred of them. The latency-critical
/// ones ask for less than 6 CPUs.
#[test]
fn a_hundred_workloads_run_under_every_policy_on_8_48_and_80_cpus() {
    let hundred = SHIPPED.iter().find(|shipped| shipped.name == "hundred").unwrap();
    for machine in ["{ cores = 8 }", "\"caladan\"", "\"dasec\""] {
        let changes = [&format!("machine={machine}"), "duration=300ms", "warm_up=100ms"].map(ToString::to_string);
        let scenario = Scenario::parse(Path::new("hundred"), hundred.text, &changes).unwrap();
        assert_eq!(scenario.workloads.len(), 100);
        for policy in AnyPolicy::ALL {
            let observed = quell_sim::scenario::run(&scenario, &mut AnyPolicy::named(policy.name).unwrap(), 0, |_| {});
            let report = scenario.report(policy.name, &[observed.unwrap()]);
            let of = |kind: &str| {
                let all = report.workloads.iter().filter(|workload| workload.name.starts_with(kind));
                all.map(|workload| workload.completed).sum::<u64>()
            };
            let (web, cache, front) = (of("web"), of("cache"), of("front"));
            let seen = format!("{} on {machine}: {web} {cache} {front}", policy.name);
            // HIS and EdgeIso begin with solo runs of up to two seconds. in which others are paused.
            let least = if policy.name == "his" { 1 } else { 1_000 };
            assert!(web > least && cache > 10 * least && front > least * 8 / 10, "{seen}");
            assert!(of("shop") > 0 && of("sensor") > 0 && of("store") == 0, "{seen}");
        }
    }
}

/// The same input gives the same output; another seed another.
#[test]
fn runs_repeat_exactly_and_seeds_differ() {
    let workloads = [server("lc", 8, 4, 40_000.0), hogs("be", 12)];
    for policy in AnyPolicy::ALL {
        let grants = policy.grants;
        let trace = |seed| {
            let mut policy = AnyPolicy::named(policy.name).unwrap();
            let topology = Topology::synthetic(1, 1, 4, 2);
            let mut host = SimHost::new(topology, KernelConfig::default(), &workloads, seed, grants).unwrap();
            let mut stack = Stack::of_one(&mut policy, host.view());
            let mut seen = Vec::new();
            drive(&mut host, &mut stack, Nanos::from_millis(50), |_, stack| {
                let layer = stack.first();
                seen.push(serde_json::to_string(&(stack.view(), &layer.events, &layer.plan)).unwrap());
            });
            (seen, host.sim().stats()[0].latencies.mean(), host.sim().counters())
        };
        let first = trace(1);
        assert_eq!(first, trace(1), "{}", policy.name);
        assert_ne!((first.1, first.2), (trace(2).1, trace(2).2), "{}", policy.name);
    }
}

/// What a policy can know of threads: who was preempted, who woke whom.
#[test]
fn preemptions_and_wake_ups_are_signals() {
    use quell_model::{Host, Signal, SignalSet};
    let rounds = quell_sim::workload::ParallelSpec::new(2, Service::Exponential(Nanos::from_millis(1)));
    let parallel = WorkloadSpec { threads: 3, parallel: Some(rounds), ..WorkloadSpec::new("p", Class::BestEffort) };
    let workloads = [hogs("be", 2), parallel];
    let mut host =
        SimHost::new(Topology::synthetic(1, 1, 1, 1), KernelConfig::default(), &workloads, 1, false).unwrap();
    let mut policy = AnyPolicy::named("none").unwrap();
    let mut stack = Stack::of_one(&mut policy, host.view());
    drive(&mut host, &mut stack, Nanos::from_secs(1), |_, _| {});
    let mut view = host.view();
    let wanted = SignalSet::of(&[Signal::Threads, Signal::Preemptions, Signal::LateStarts, Signal::WakeUps]);
    let Ok(()) = host.observe(wanted, &mut view, &mut Vec::new());
    let (threads, edges) = (&view.threads, &view.threads.wake_ups);
    assert!(threads.preemptions[..2].iter().all(|count| count.is_some_and(|count| count > 50)), "{threads:?}");
    // Hogs are never woken; a thread that is woken beside two of them waits for a slice or two now and then.
    let late: Vec<u64> = threads.late_starts.iter().flatten().copied().collect();
    assert!(late.len() == 5 && late[..2] == [0, 0] && late[2..].iter().sum::<u64>() > 0, "{late:?}");
    assert!(!edges.woken.is_empty() && edges.woken.iter().all(|woken| threads.id[2..].contains(woken)), "{edges:?}");
    assert!(edges.waker.iter().all(|waker| waker.is_some_and(|waker| threads.id[2..].contains(&waker))));
    let Ok(()) = host.observe(SignalSet::of(&[Signal::Threads]), &mut view, &mut Vec::new());
    assert!(view.threads.preemptions.is_empty() && view.threads.wake_ups.woken.is_empty());
}

#[test]
fn a_limit_is_kept_whatever_the_policy_and_the_tighter_of_it_and_a_quota() {
    let limited = |limit, quota: Option<u32>| WorkloadSpec {
        limit: Some(CpuCount(limit)),
        quota: quota.map(CpuCount),
        ..hogs("batch", 2)
    };
    let span = Nanos::from_millis(1000);
    for (limit, quota, expected) in [(500, None, 0.5), (1500, None, 1.5), (1500, Some(700), 0.7), (600, Some(900), 0.6)]
    {
        for policy in ["none", "guard"] {
            let got = run(policy, Topology::synthetic(1, 1, 2, 1), &[limited(limit, quota)], span).hog_cpus;
            assert!((got - expected).abs() < 0.1 * expected, "{policy} {limit} {quota:?}: {got} CPUs");
        }
    }
}

/// On the kernel's scheduler CPUs are lent by affinity: best-effort threads keep to what their workload holds.
#[test]
fn without_quells_scheduler_best_effort_work_is_bound_to_what_it_holds() {
    use quell_sim::scenario::{Detail, Run, Scenario, Treatment};
    let text = r#"
duration = "1s"
machine = { cores = 4, scheduler = "kernel" }
[[workload]]
name = "web"
class = "lc"
cpus = 2.0
threads = 2
server = { arrivals = { poisson = 2000.0 }, service = { constant = "500us" } }
[[workload]]
name = "batch"
class = "be"
threads = 4
batch = {}
"#;
    let scenario = Scenario::parse(std::path::Path::new("s"), text, &[]).unwrap();
    let run = |names: &[&str], lending: Lending| {
        let policies = names.iter().map(|name| (AnyPolicy::named(name).unwrap(), None)).collect();
        let mut held = 0;
        let run = Run::new(&scenario, Treatment { policies, lending }, 0).unwrap();
        let observed = run.finish(Detail::Totals, |stack| {
            held = held.max(stack.view().cpus.holder.iter().filter(|holder| **holder == Some(WorkloadId(1))).count());
        });
        (observed, held)
    };
    let (plain, none_held) = run(&["none"], Lending::Nothing);
    let (lent, held) = run(&["guard", "caladan"], Lending::Affinity);
    assert_eq!(none_held, 0, "nothing is lent");
    assert!((1..=4).contains(&held), "{held}");
    assert_eq!(lent.policy_costs.charged.0 % 1000, 0);
    let p99 = |observed: &quell_sim::scenario::Observed| observed.workloads[0].latencies.quantile(0.99);
    assert!(p99(&lent).0 * 2 < p99(&plain).0, "{} against {}", p99(&lent), p99(&plain));
    assert!(lent.workloads[1].run_time > plain.workloads[1].run_time / 2, "best-effort work goes on");
    // Two policies that would set the same are refused by name.
    let clash = Treatment {
        policies: ["rkube", "caladan"].map(|name| (AnyPolicy::named(name).unwrap(), None)).into(),
        lending: Lending::Affinity,
    };
    let refused = Run::new(&scenario, clash, 0).err().unwrap().to_string();
    assert!(refused.contains("'rkube' and 'caladan'") && refused.contains("`workloads`"), "{refused}");
}
