//! Batch work whose turns are so much work, and clients that report latency.

use quell_model::{Class, Host, Nanos, Signal, SignalSet, Slo, Topology};
use quell_sim::contention::ProfileName;
use quell_sim::host::REPORT;
use quell_sim::workload::{Arrivals, BatchSpec, CpuList, Dispatch, ServerSpec, Service, Turn};
use quell_sim::{KernelConfig, Sim, SimHost, WorkloadSpec};

fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// 40 ms of computing, then streaming for ever: on one CPU it streams half as early as on two.
#[test]
fn a_turn_of_work_ends_when_it_is_done() {
    let turn = |name: &str, lasts, work| Turn { profile: ProfileName::Known(name.into()), lasts, work };
    let cycle = vec![turn("computing", None, Some(millis(40))), turn("streaming", Some(Nanos::from_secs(9)), None)];
    let bytes = |cpus: &str, until: u64| {
        let spec = WorkloadSpec {
            threads: 2,
            cpuset: Some(CpuList(cpus.parse().unwrap())),
            batch: Some(BatchSpec { cycle: cycle.clone(), ..BatchSpec::default() }),
            ..WorkloadSpec::new("both", Class::BestEffort)
        };
        let mut sim = Sim::new(Topology::synthetic(1, 1, 2, 1), KernelConfig::default(), &[spec], 1).unwrap();
        sim.begin();
        sim.run_until(millis(until));
        sim.stats()[0].counted.bytes
    };
    assert!(bytes("0-1", 19) < 1e6 && bytes("0-1", 25) > 10e6);
    assert!(bytes("0", 39) < 1e6 && bytes("0", 45) > 10e6);
}

#[test]
fn a_turn_needs_one_length() {
    let turn = |lasts, work| Turn { profile: ProfileName::Known("computing".into()), lasts, work };
    for cycle in [vec![turn(None, None)], vec![turn(Some(millis(1)), Some(millis(1)))]] {
        let batch = Some(BatchSpec { cycle, ..BatchSpec::default() });
        let spec = WorkloadSpec { batch, ..WorkloadSpec::new("both", Class::BestEffort) };
        assert!(spec.check(&Topology::synthetic(1, 1, 2, 1).all()).unwrap_err().contains("give one of them"));
    }
}

#[test]
fn clients_report_the_slos_quantile_of_whole_periods() {
    let server = |name: &str, slo| WorkloadSpec {
        slo,
        server: Some(ServerSpec {
            arrivals: Arrivals::Uniform(1_000.0),
            service: Service::Constant(Nanos::from_micros(100)),
            dispatch: Dispatch::Pool,
        }),
        ..WorkloadSpec::new(name, Class::LatencyCritical)
    };
    let slo = Some(Slo { quantile: 0.999, bound: millis(1) });
    let workloads = [server("with", slo), server("without", None)];
    let mut host =
        SimHost::new(Topology::synthetic(1, 1, 2, 1), KernelConfig::default(), &workloads, 1, false).unwrap();
    let mut view = host.view();
    let mut look = |until: Nanos| {
        while host.sim().now() < until {
            let Ok(()) = host.wait(quell_model::Wake::At(until));
        }
        let Ok(()) = host.observe(SignalSet::of(&[Signal::Latency]), &mut view, &mut Vec::new());
        (view.workloads.latency[0], view.workloads.latency[1].usable())
    };
    assert_eq!(look(Nanos::ZERO).0.usable(), None, "nothing was reported yet");
    assert_eq!(look(REPORT - Nanos(1)).0.usable(), None);
    let (report, without) = look(REPORT);
    let latency = report.usable().expect("the first report is here");
    assert!((100..200).contains(&(latency.0 / 1_000)), "{latency}");
    assert_eq!((report.at, report.window, without), (REPORT, REPORT, None));
    assert_eq!(look(REPORT + millis(100)).0, report, "until the next one");
}
