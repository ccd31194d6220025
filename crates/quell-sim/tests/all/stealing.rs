//! The work-stealing runtime: against theory, and where its CPUs are granted and taken.

use proptest::prelude::*;
use quell_model::{
    Class, CpuId, Event, GrantCommand, Host, Nanos, Outcome, Plan, SchedClass, Signal, SignalSet, Topology, Verdict,
    View, Wake, WorkloadId,
};
use quell_policy::AnyPolicy;
use quell_sim::experiment::theory::mmk_mean;
use quell_sim::host::drive;
use quell_sim::workload::{Arrivals, BatchSpec, ClosedSpec, Dispatch, Forward, Runtime, ServerSpec, Service, Step};
use quell_sim::{Costs, KernelConfig, Sim, SimHost, WorkloadSpec};

const FREE: Dispatch = Dispatch::WorkStealing(Runtime::FREE);
const RUNTIME: WorkloadId = WorkloadId(0);
const CLIENTS: u32 = 10;

fn runtime(threads: u32, arrivals: Arrivals, service: Service, dispatch: Dispatch) -> WorkloadSpec {
    WorkloadSpec {
        threads,
        server: Some(ServerSpec { arrivals, service, dispatch }),
        ..WorkloadSpec::new("runtime", Class::LatencyCritical)
    }
}

fn free_kernel() -> KernelConfig {
    KernelConfig { costs: Costs::FREE, ..KernelConfig::default() }
}

/// A work-stealing system whose stealing costs nothing never idles while somebody waits: its mean response is that of
/// M/M/k, whatever queue the requests are steered to.
#[test]
fn free_stealing_is_m_m_k() {
    let service = Nanos::from_millis(1);
    for (servers, load) in [(4u32, 0.7), (4, 0.9), (16, 0.8)] {
        let arrivals = Arrivals::Poisson(load * f64::from(servers) / service.as_secs_f64());
        let spec = WorkloadSpec {
            scheduling: SchedClass::Fifo { priority: 1 },
            ..runtime(servers, arrivals, Service::Exponential(service), FREE)
        };
        let mut sim = Sim::new(Topology::synthetic(1, 1, servers, 1), free_kernel(), &[spec], 3).unwrap();
        sim.begin();
        sim.run_until(Nanos::from_secs(10));
        sim.end_warm_up();
        sim.run_until(Nanos::from_secs(210));
        let theory = mmk_mean(servers, load);
        let mean = sim.stats()[0].latencies.mean().as_secs_f64() / service.as_secs_f64();
        assert!((mean / theory - 1.0).abs() < 0.03, "{servers} at {load}: {mean:.4}, theory says {theory:.4}");
    }
}

/// With requests of a microsecond, what the runtime does itself counts, and spinning saves the kernel's switches.
#[test]
fn costs_of_the_runtime_count() {
    let mean = |runtime: Runtime| {
        let dispatch = Dispatch::WorkStealing(runtime);
        let spec = self::runtime(4, Arrivals::Poisson(1e6), Service::Constant(Nanos(1_000)), dispatch);
        let mut sim = Sim::new(Topology::synthetic(1, 1, 4, 1), KernelConfig::default(), &[spec], 3).unwrap();
        sim.begin();
        sim.run_until(Nanos::from_millis(200));
        (sim.stats()[0].latencies.mean().0, sim.counters().switches)
    };
    let usual = mean(Runtime::default());
    let slow_switch = mean(Runtime { switch: Nanos(500), ..Runtime::default() });
    let no_spinning = mean(Runtime { spin: Nanos(0), ..Runtime::default() });
    assert!(slow_switch.0 > usual.0 + 400, "{slow_switch:?} {usual:?}");
    assert!(no_spinning.1 > 2 * usual.1, "{no_spinning:?} {usual:?}");
}

/// Under the kernel's own scheduler a runtime that is confined to fewer CPUs than it has threads keeps as many active: its
/// threads hardly ever wait for each other.
#[test]
fn no_more_threads_are_active_than_there_are_cpus() {
    let dispatch = Dispatch::WorkStealing(Runtime::default());
    let service = Service::Exponential(micros(10));
    let cpuset = Some(quell_sim::workload::CpuList("0-1".parse().unwrap()));
    let spec = WorkloadSpec { cpuset, ..runtime(8, Arrivals::Poisson(120_000.0), service, dispatch) };
    let mut sim = Sim::new(Topology::synthetic(1, 1, 8, 1), KernelConfig::default(), &[spec], 3).unwrap();
    sim.begin();
    sim.run_until(Nanos::from_millis(500));
    let stats = &sim.stats()[0];
    assert!(stats.latencies.count() > 58_000, "{}", stats.latencies.count());
    assert!(stats.run_delay < stats.run_time / 20, "waited {} of {}", stats.run_delay, stats.run_time);
}

/// A host where CPUs are granted by hand, and what it shows.
struct ByHand {
    host: SimHost,
    view: View,
    plan: Plan,
}

impl ByHand {
    fn new(cpus: u32, workloads: &[WorkloadSpec]) -> ByHand {
        let host = SimHost::new(Topology::synthetic(1, 1, cpus, 1), free_kernel(), workloads, 5, true).unwrap();
        ByHand { view: host.view(), host, plan: Plan::default() }
    }

    fn give(&mut self, cpu: u32, to: Option<WorkloadId>) {
        self.plan.begin(self.plan.number + 1);
        let cpu = CpuId(cpu);
        self.plan.grants.push(to.map_or(GrantCommand::Revoke(cpu), |to| GrantCommand::Grant(cpu, to)));
        let mut events = Vec::new();
        let Ok(()) = self.host.apply(&self.plan, &mut events);
        let refused = |event: &Event| matches!(event, Event::Outcome(Outcome { verdict: Verdict::Refused(_), .. }));
        assert!(!events.iter().any(refused), "{events:?}");
    }

    fn until(&mut self, at: Nanos) {
        while self.host.sim().now() < at {
            let Ok(()) = self.host.wait(Wake::At(at));
            self.look();
        }
    }

    fn look(&mut self) {
        let wanted = SignalSet::of(&[Signal::QueueingDelay]);
        let Ok(()) = self.host.observe(wanted, &mut self.view, &mut Vec::new());
    }

    fn queueing_delay(&mut self) -> Nanos {
        self.look();
        self.view.workloads.queueing_delay[0].value
    }

    fn completed(&self) -> u64 {
        self.host.sim().stats()[0].latencies.count()
    }
}

fn micros(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

/// Requests of a millisecond at 0.1, 0.2 and 0.3 ms, and never again within these tests.
fn three_requests(threads: u32) -> WorkloadSpec {
    let times = vec![micros(100), micros(200), micros(300), Nanos::from_secs(1_000)];
    runtime(threads, Arrivals::Recorded(times), Service::Constant(micros(1_000)), FREE)
}

#[test]
fn the_exported_delay_is_the_age_of_the_oldest_request_that_waits() {
    let mut by_hand = ByHand::new(4, &[three_requests(4)]);
    by_hand.until(micros(150));
    assert_eq!(by_hand.queueing_delay(), micros(50), "no one has a CPU, and the first request waits");
    by_hand.give(0, Some(RUNTIME));
    by_hand.until(micros(350));
    assert_eq!(by_hand.queueing_delay(), micros(150), "the first one runs, the second waits");
    by_hand.until(micros(1_200));
    // The first ended at 1.15 ms and one nanosecond, in which its thread woke up.
    assert_eq!(by_hand.queueing_delay(), micros(900), "the third waits");
    by_hand.until(micros(2_500));
    assert_eq!((by_hand.queueing_delay(), by_hand.completed()), (Nanos::ZERO, 2));
}

#[test]
fn a_granted_cpu_unparks_a_thread_that_steals() {
    let mut by_hand = ByHand::new(4, &[three_requests(4)]);
    by_hand.until(micros(150));
    by_hand.give(0, Some(RUNTIME));
    by_hand.until(micros(350));
    assert_eq!(by_hand.queueing_delay(), micros(150), "a runtime takes no second CPU by itself");
    by_hand.give(2, Some(RUNTIME));
    by_hand.give(3, Some(RUNTIME));
    by_hand.until(micros(351));
    assert_eq!(by_hand.queueing_delay(), Nanos::ZERO);
    by_hand.until(micros(1_400));
    assert_eq!(by_hand.completed(), 3);
    assert!(by_hand.host.held(RUNTIME).is_empty(), "parked threads yield their CPUs");
}

#[test]
fn what_ran_on_a_revoked_cpu_is_stolen_by_the_others() {
    let mut by_hand = ByHand::new(2, &[three_requests(2)]);
    by_hand.until(micros(150));
    by_hand.give(0, Some(RUNTIME));
    by_hand.until(micros(250));
    by_hand.give(1, Some(RUNTIME));
    by_hand.until(micros(650));
    // The first has run for 500 µs and goes back into a queue, in the open: it waits again.
    by_hand.give(0, None);
    assert!(by_hand.queueing_delay() >= micros(300), "{}", by_hand.queueing_delay());
    by_hand.until(micros(3_000));
    assert_eq!(by_hand.completed(), 3, "one CPU does it all");
    // 1 ms for the second and the third, and the first's other half: 2.25 ms and a little after they began at 0.25 ms.
    let last = by_hand.host.sim().stats()[0].latencies.max();
    assert!(last > micros(2_300) && last < micros(2_700), "{last}");
}

#[test]
fn a_runtime_without_any_cpu_goes_on_with_the_next_one() {
    let mut by_hand = ByHand::new(2, &[three_requests(2)]);
    by_hand.until(micros(150));
    by_hand.give(0, Some(RUNTIME));
    by_hand.until(micros(500));
    by_hand.give(0, None);
    by_hand.until(micros(5_000));
    assert_eq!((by_hand.completed(), by_hand.queueing_delay()), (0, micros(4_800)), "the second has waited longest");
    by_hand.give(1, Some(RUNTIME));
    by_hand.until(micros(8_000));
    assert_eq!(by_hand.completed(), 3);
}

/// Caladan's own case: its policy and its runtime. Batch work gets the CPUs that the server does not need.
#[test]
fn caladan_gives_the_runtime_cpus_as_it_needs_them() {
    let spec = WorkloadSpec {
        cpus: quell_model::CpuCount::whole(6),
        ..runtime(
            8,
            Arrivals::Poisson(300_000.0),
            Service::Exponential(micros(10)),
            Dispatch::WorkStealing(Runtime::default()),
        )
    };
    let batch = Some(BatchSpec::default());
    let hogs = WorkloadSpec { threads: 8, batch, ..WorkloadSpec::new("hogs", Class::BestEffort) };
    let run = |name: &str, workloads: &[WorkloadSpec]| {
        let mut policy = AnyPolicy::named(name).unwrap();
        let grants = name == "caladan";
        let topology = Topology::synthetic(1, 1, 8, 1);
        let mut host = SimHost::new(topology, KernelConfig::default(), workloads, 7, grants).unwrap();
        let mut stack = quell_model::Stack::of_one(&mut policy, host.view());
        drive(&mut host, &mut stack, Nanos::from_millis(300), |_, _| {});
        host.sim().stats()
    };
    let workloads = [spec, hogs];
    let (linux, alone) = (run("none", &workloads), run("caladan", &workloads[..1]));
    let caladan = run("caladan", &workloads);
    let p99 = |stats: &[quell_sim::workload::WorkloadStats]| stats[0].latencies.quantile(0.99);
    assert!(caladan[0].latencies.count() > 89_000, "{}", caladan[0].latencies.count());
    assert!(p99(&caladan).0 < 2 * p99(&alone).0, "{} against {} alone", p99(&caladan), p99(&alone));
    assert!(p99(&caladan).0 * 5 < p99(&linux).0, "{} against {} of Linux", p99(&caladan), p99(&linux));
    let hogs_got = caladan[1].run_time as f64 / 300e6;
    assert!(hogs_got > 2.0, "{hogs_got}");
}

#[test]
fn each_grant_may_cost_by_itself() {
    let costs = Costs { grant: Nanos(500), grant_each: Nanos(2_000), ..Costs::FREE };
    let kernel = KernelConfig { costs, ..KernelConfig::default() };
    let mut host = SimHost::new(Topology::synthetic(1, 1, 4, 1), kernel, &[three_requests(4)], 5, true).unwrap();
    let mut plan = Plan::default();
    plan.begin(1);
    plan.grants.extend([0, 1, 2].map(|cpu| GrantCommand::Grant(CpuId(cpu), RUNTIME)));
    let Ok(()) = host.apply(&plan, &mut Vec::new());
    assert_eq!((host.policy_costs().charged, host.sim().now()), (Nanos(6_500), Nanos(6_500)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Whatever the runtime costs and whichever threads get and lose CPUs when: no request is lost, none done twice, and when
    /// all are done no thread runs.
    #[test]
    fn no_request_is_lost(
        threads in 1u32..6,
        costs in (0u64..3_000, 0u64..200, 0u64..200, 0u64..800),
        io in (prop_oneof![Just(0u64), 1u64..900], prop_oneof![Just(0u64), 1u64..20_000]),
        grants in proptest::option::of(proptest::collection::vec((0u32..4, 0u8..3, 0u64..200), 0..80)),
        is_closed in proptest::bool::ANY,
    ) {
        let (spin, switch, steal, park) = costs;
        let costs = Runtime { spin: Nanos(spin), switch: Nanos(switch), steal: Nanos(steal), park: Nanos(park), ..Runtime::FREE };
        let costs = Runtime { packet: Nanos(io.0), storage: Nanos(io.1), ..costs };
        let dispatch = Dispatch::WorkStealing(costs);
        let service = Service::Exponential(micros(20));
        let stops = Arrivals::Steps(vec![Step { at: Nanos(0), rate: 100_000.0 }, Step { at: micros(10_000), rate: 0.0 }]);
        let mut spec = runtime(threads, stops, service.clone(), dispatch);
        if is_closed {
            let think = Service::Exponential(micros(500));
            spec.server = None;
            spec.closed = Some(ClosedSpec { clients: CLIENTS, think, pace: None, service, dispatch });
        }
        let batch = Some(BatchSpec::default());
        let hogs = WorkloadSpec { threads: 3, batch, ..WorkloadSpec::new("hogs", Class::BestEffort) };
        let is_granted = grants.is_some();
        let topology = Topology::synthetic(1, 1, 2, 2);
        let host = SimHost::new(topology, KernelConfig::default(), &[spec, hogs], 5, is_granted).unwrap();
        let view = host.view();
        let mut by_hand = ByHand { view, host, plan: Plan::default() };
        let mut at = Nanos(0);
        for (cpu, to, after) in grants.unwrap_or_default() {
            at += micros(after);
            by_hand.until(at);
            by_hand.give(cpu, (to < 2).then_some(WorkloadId(u32::from(to))));
        }
        by_hand.until(Nanos::from_millis(20));
        let lets_pass = |by_hand: &mut ByHand, until: Nanos| {
            while by_hand.host.sim().now() < until {
                if is_granted && by_hand.host.held(RUNTIME).is_empty() && by_hand.queueing_delay() > Nanos::ZERO {
                    by_hand.give(0, Some(RUNTIME));
                }
                let next = by_hand.host.sim().now() + micros(100);
                by_hand.until(next);
            }
        };
        if is_closed {
            lets_pass(&mut by_hand, Nanos::from_millis(60));
            let before = by_hand.completed();
            lets_pass(&mut by_hand, Nanos::from_millis(560));
            let stats = &by_hand.host.sim().stats()[0];
            prop_assert!(stats.arrived - stats.latencies.count() <= u64::from(CLIENTS));
            // Ten clients who all come back: hardly anybody thinks and works for longer than a few ms.
            prop_assert!(by_hand.completed() > before + 1_000, "{} after {before}", by_hand.completed());
        } else {
            lets_pass(&mut by_hand, Nanos::from_millis(1_500));
            let stats = &by_hand.host.sim().stats()[0];
            prop_assert_eq!(stats.latencies.count(), stats.arrived);
            prop_assert!(stats.arrived > 900);
            prop_assert_eq!(by_hand.queueing_delay(), Nanos::ZERO);
        }
    }
}

#[test]
fn a_device_takes_its_time_and_forwarding_queues() {
    let mean = |dispatch: Runtime, rate: f64, service: u64| {
        let spec = runtime(
            4,
            Arrivals::Uniform(rate),
            Service::Constant(Nanos(service)),
            Dispatch::WorkStealing(Runtime { ..dispatch }),
        );
        let mut sim = Sim::new(Topology::synthetic(1, 1, 4, 1), free_kernel(), &[spec], 3).unwrap();
        sim.begin();
        sim.run_until(Nanos::from_millis(50));
        (sim.stats()[0].latencies.mean().0, sim.stats()[0].latencies.count())
    };
    let plain = mean(Runtime::FREE, 1e4, 20_000);
    let device = mean(Runtime { storage: micros(10), ..Runtime::FREE }, 1e4, 20_000);
    assert!((9_900..10_200).contains(&(device.0 - plain.0)), "{device:?} {plain:?}");
    let packet = mean(Runtime { packet: micros(2), ..Runtime::FREE }, 1e4, 20_000);
    assert!((1_990..2_010).contains(&(packet.0 - plain.0)), "{packet:?} {plain:?}");
    let forward = Some(Forward { each: micros(1), memory: Nanos(0) });
    let forwarded = mean(Runtime { forward, ..Runtime::FREE }, 1e4, 20_000);
    assert_eq!(forwarded.0 - plain.0, 1_000, "it goes through at once");
    // Twice as many as it can forward: half of them are answered.
    let most = mean(Runtime { forward, ..Runtime::FREE }, 2e6, 100);
    assert!((49_000..=50_000).contains(&most.1), "{most:?}");
}

/// §5.1: "computes the delay for each core by summing the delays experienced by the oldest element in each of its queues".
#[test]
fn a_cores_delay_is_the_sum_over_its_queues() {
    let arrivals = Arrivals::Recorded(vec![Nanos(1_000), Nanos(1_500), Nanos(2_500), micros(1_000)]);
    let storage = Runtime { packet: Nanos(100), storage: micros(2), ..Runtime::FREE };
    let spec = runtime(1, arrivals, Service::Constant(micros(6)), Dispatch::WorkStealing(storage));
    let host = SimHost::new(Topology::synthetic(1, 1, 1, 1), free_kernel(), &[spec], 5, true).unwrap();
    let view = host.view();
    let mut by_hand = ByHand { view, host, plan: Plan::default() };
    by_hand.until(Nanos(1_001));
    by_hand.give(0, Some(RUNTIME));
    // The first one runs from 1 µs to 4.1 µs and waits for the device until 6.1 µs. Meanwhile the second and the third were
    // taken in: from 4.2 µs on the second runs, and the third is a green thread.
    by_hand.until(Nanos(6_000));
    let green = by_hand.queueing_delay();
    by_hand.until(Nanos(7_000));
    let both = by_hand.queueing_delay();
    assert!(
        both.0 > green.0 + 1_500,
        "a microsecond of the green thread's and one of the completion's: {green} {both}"
    );
}
