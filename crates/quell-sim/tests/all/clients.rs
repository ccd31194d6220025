//! Closed loops: clients who wait for their answers.

use quell_model::{Class, Nanos, Topology};
use quell_sim::workload::{ClosedSpec, CpuList, Dispatch, Service, WorkloadStats};
use quell_sim::{Costs, KernelConfig, Sim, WorkloadSpec};

const SPAN: Nanos = Nanos::from_secs(1);

fn server(threads: u32, pace: Option<f64>, dispatch: Dispatch) -> WorkloadSpec {
    let (think, service) = (Service::Constant(Nanos(1)), Service::Constant(Nanos::from_micros(100)));
    let closed = Some(ClosedSpec { clients: 8, think, pace, service, dispatch });
    WorkloadSpec { threads, closed, ..WorkloadSpec::new("server", Class::LatencyCritical) }
}

fn run(cpus: u32, server: WorkloadSpec) -> WorkloadStats {
    let config = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
    let mut sim = Sim::new(Topology::synthetic(1, 1, cpus, 1), config, &[server], 1).unwrap();
    sim.begin();
    sim.run_until(SPAN);
    sim.stats().remove(0)
}

/// Clients with a timetable ask as often as it says, evenly; more than the server can answer they cannot ask.
#[test]
fn paced_clients_keep_to_their_timetable_as_far_as_answers_allow() {
    let calm = run(1, server(1, Some(5_000.0), Dispatch::Pool));
    assert_eq!(calm.latencies.count(), 5_000);
    assert_eq!(calm.latencies.max().0 / 1_000, 100, "no client waits for another");
    let counted = calm.switching;
    assert!((4_999..=5_000).contains(&counted.sleeps), "the thread sleeps after each request: {counted:?}");
    assert_eq!((counted.preemptions, counted.migrations), (0, 0));
    for pace in [Some(20_000.0), None] {
        let busy = run(1, server(1, pace, Dispatch::Pool));
        assert_eq!(busy.latencies.count(), 9_999, "{pace:?}");
        assert_eq!(busy.latencies.quantile(0.5).0 / 1_000, 800, "seven are before each");
    }
}

/// Of two threads one has a CPU to itself. The other is bound to a CPU with another server, beside which it gets a third:
/// half of its group's weight is on the first CPU.
#[test]
fn a_thread_answers_its_own_connections_only() {
    let bound: Vec<CpuList> = ["0", "1"].iter().map(|cpu| CpuList(cpu.parse().unwrap())).collect();
    let mut slow = server(2, None, Dispatch::PerThread);
    slow.affinity = bound;
    let mut other = server(1, None, Dispatch::Pool);
    (other.name, other.affinity) = ("other".into(), vec![CpuList("1".parse().unwrap())]);
    let config = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
    let mut sim = Sim::new(Topology::synthetic(1, 1, 2, 1), config, &[slow, other], 1).unwrap();
    sim.begin();
    sim.run_until(SPAN);
    let answered = sim.stats()[0].latencies.count();
    assert!((13_200..13_500).contains(&answered), "10,000 and a third of them: {answered}");
    let counted = sim.stats()[0].switching;
    assert!(counted.preemptions > 50 && counted.migrations == 0, "two that never sleep take turns: {counted:?}");
}

#[test]
fn a_pace_of_nothing_is_refused() {
    let error =
        Sim::new(Topology::synthetic(1, 1, 1, 1), KernelConfig::default(), &[server(1, Some(0.0), Dispatch::Pool)], 1);
    assert!(error.unwrap_err().to_string().contains("pace"));
}
