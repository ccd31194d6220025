//! What VAS's analysis says (vas-rtns21 §4), against the simulated kernel's servers.

use proptest::prelude::*;
use quell_model::{Class, CpuSet, Nanos, SchedClass, Topology};
use quell_policy::vas::{Busy, Interface, Poisson, Releases, Task, TaskSet, latency};
use quell_sim::vm::Deferrable;
use quell_sim::workload::graph::GraphSpec;
use quell_sim::workload::{Arrivals, CpuList, Dispatch, PeriodicSpec, ServerSpec, Service, WorkloadStats};
use quell_sim::{Costs, KernelConfig, Population, RealTimeLimit, Sim, VmSpec, WorkloadSpec};

fn config() -> KernelConfig {
    KernelConfig { costs: Costs::FREE, real_time_limit: RealTimeLimit::None, ..KernelConfig::default() }
}

/// What the workloads did in so much time on one CPU.
fn run(vms: &[VmSpec], workloads: &[WorkloadSpec], span: Nanos) -> Vec<WorkloadStats> {
    let population = Population { workloads, vms, requests: &GraphSpec::NONE };
    let mut sim = Sim::new(Topology::synthetic(1, 1, 1, 1), config(), population, 1).unwrap();
    sim.begin();
    sim.run_until(span);
    sim.stats()
}

/// A VM with one vCPU, as a server or not.
fn vm(server: Option<Interface>) -> VmSpec {
    let deferrable = server.map(|Interface { budget, period }| Deferrable { budget, period, priority: 1 });
    VmSpec { deferrable, affinity: vec![CpuList(CpuSet::first(1))], kernel: config(), ..VmSpec::new("vm", 1) }
}

fn cells(stats: &[WorkloadStats]) -> Vec<Vec<(Nanos, u64)>> {
    stats.iter().map(|stats| stats.latencies.cells().collect()).collect()
}

/// The paper's Γ1 with a period that is not its hyperperiod: `quell vas --enforced 2s` says (860, 1000) ms.
#[test]
fn the_least_budget_for_another_period_leaves_the_latencies_of_a_whole_cpu() {
    let ms = Nanos::from_millis;
    let tasks = [(150, 40, 250), (100, 200, 500), (50, 100, 1000), (0, 200, 2000)];
    let latencies = |server: Option<Interface>| {
        let task = |(at, (offset, work, period)): (usize, (u64, u64, u64))| WorkloadSpec {
            vm: Some("vm".into()),
            scheduling: SchedClass::Fifo { priority: 90 - at as u8 },
            periodic: Some(PeriodicSpec {
                period: ms(period),
                work: Service::Constant(ms(work)),
                offset: ms(offset),
                stagger: Nanos::ZERO,
                later: None,
                deadline: None,
            }),
            ..WorkloadSpec::new(format!("task{at}"), Class::LatencyCritical)
        };
        let workloads: Vec<WorkloadSpec> = tasks.into_iter().enumerate().map(task).collect();
        cells(&run(&[vm(server)], &workloads, Nanos::from_secs(60)))
    };
    let interface = |budget| Some(Interface { budget: ms(budget), period: ms(1000) });
    assert_eq!(latencies(interface(860)), latencies(None));
    assert_ne!(latencies(interface(760)), latencies(None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// One thread that does the jobs of several tasks, first come, first served, as SCHED_DEADLINE: it is never throttled,
    /// though the kernel begins its periods when it wakes up.
    #[test]
    fn a_deadline_thread_with_the_budget_alone_on_its_cpu_is_never_throttled(
        tasks in prop::collection::vec((0u64..40, 8u64..40), 1..4),
        work in 1u64..6,
        period in 2u64..80,
    ) {
        let unit = Nanos::from_millis(1).0;
        let task = |&(offset, period): &(u64, u64)| Task {
            offset: Nanos(offset % period * unit),
            work: Nanos(work * unit),
            period: Nanos(period * unit),
        };
        let Ok(set) = TaskSet::new(tasks.iter().map(task).collect(), Releases::Periodic) else { return Ok(()) };
        let period = Nanos(period * unit);
        let budget = Busy::of(&set).budget(period);
        let span = Nanos(2_000 * unit);
        let mut releases: Vec<Nanos> = set
            .tasks()
            .iter()
            .flat_map(|task| (task.offset.0..=span.0).step_by(task.period.0 as usize).map(Nanos))
            .collect();
        releases.sort_unstable();
        // After the last one they begin anew: beyond the time that is looked at.
        releases.push(span + span);
        let latencies = |scheduling| {
            let server = ServerSpec {
                arrivals: Arrivals::Recorded(releases.clone()),
                service: Service::Constant(Nanos(work * unit)),
                dispatch: Dispatch::Pool,
            };
            let service = WorkloadSpec { server: Some(server), scheduling, ..WorkloadSpec::new("service", Class::LatencyCritical) };
            cells(&run(&[], &[service], span))
        };
        let served = latencies(SchedClass::Deadline { runtime: budget, deadline: period, period });
        prop_assert!(!served[0].is_empty());
        prop_assert_eq!(served, latencies(SchedClass::Fifo { priority: 50 }), "{} every {} for {:?}", budget, period, set.tasks());
    }
}

/// Requests at random, at three loads of the budget: quantiles as `quell vas --poisson` works them out.
#[test]
fn quantiles_of_a_poisson_stream_are_those_of_the_simulator() {
    const REQUESTS: f64 = 500_000.0;
    let interface = Interface { budget: Nanos::from_millis(5), period: Nanos::from_millis(10) };
    let mean = Nanos::from_micros(100);
    let services = [
        ("constant:100us", Service::Constant(mean)),
        ("exponential:100us", Service::Exponential(mean)),
        ("lognormal:100us:0.8", Service::Lognormal { mean, sigma: 0.8 }),
    ];
    let mut wrong = Vec::new();
    for (text, service) in services {
        for load in [0.3, 0.6, 0.8] {
            let rate = load * interface.share() / mean.as_secs_f64();
            let server =
                ServerSpec { arrivals: Arrivals::Poisson(rate), service: service.clone(), dispatch: Dispatch::Pool };
            let workload = WorkloadSpec {
                vm: Some("vm".into()),
                server: Some(server),
                ..WorkloadSpec::new("service", Class::LatencyCritical)
            };
            let span = Nanos((REQUESTS / rate * 1e9) as u64);
            let stats = run(&[vm(Some(interface))], &[workload], span).swap_remove(0);
            let stream = Poisson { rate, service: text.parse().unwrap() };
            for quantile in [0.5, 0.9, 0.99] {
                let said = latency(&stream, interface, quantile).unwrap();
                let seen = stats.latencies.quantile(quantile);
                let off = seen.0 as f64 / said.latency.0 as f64 - 1.0;
                // The simulator's run is shorter than the analysis's: its own interval is wider.
                let noise = said.uncertainty * libm::sqrt(stream_length(quantile) / REQUESTS);
                if off.abs() > 0.02 + noise {
                    wrong.push(format!(
                        "{text} at {load}, p{quantile}: {seen} seen, {} said ± {noise:.3}",
                        said.latency
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Requests that the analysis works out for a quantile.
fn stream_length(quantile: f64) -> f64 {
    (20_000.0 / (1.0 - quantile)).clamp(1e6, 4e6)
}
