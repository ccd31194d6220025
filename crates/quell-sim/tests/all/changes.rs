//! A script changes the machine while time passes: workloads, threads, demand, CPUs, signals.

use quell_model::{
    Class, CpuCount, CpuId, CpuSet, Event, GrantCommand, Host, Lease, LeaseRequest, Nanos, Outcome, Plan, Rule, Signal,
    SignalSet, SoloEnd, Topology, Verdict, View, Wake, WorkloadId,
};
use quell_sim::contention::Profile;
use quell_sim::workload::{Arrivals, BatchSpec, Dispatch, PeriodicSpec, ServerSpec, Service};
use quell_sim::{Costs, KernelConfig, SimHost, WorkloadSpec};

const ALL: SignalSet = SignalSet::of(Signal::ALL);
const MILLI: Nanos = Nanos::from_millis(1);

fn batch(name: &str, threads: u32) -> WorkloadSpec {
    WorkloadSpec { threads, batch: Some(BatchSpec::default()), ..WorkloadSpec::new(name, Class::BestEffort) }
}

fn server(name: &str, rate: f64) -> WorkloadSpec {
    let (arrivals, service) = (Arrivals::Poisson(rate), Service::Constant(Nanos::from_micros(50)));
    let server = Some(ServerSpec { arrivals, service, dispatch: Dispatch::Pool });
    let (threads, cpus) = (2, CpuCount::whole(2));
    WorkloadSpec { server, threads, cpus, ..WorkloadSpec::new(name, Class::LatencyCritical) }
}

fn periodic(name: &str) -> WorkloadSpec {
    let (offset, stagger) = (Nanos::ZERO, Nanos::ZERO);
    let (period, work) = (Nanos::from_millis(10), Service::Constant(Nanos::from_millis(2)));
    let periodic = Some(PeriodicSpec { period, work, offset, stagger, later: None, deadline: None });
    WorkloadSpec { periodic, ..WorkloadSpec::new(name, Class::LatencyCritical) }
}

fn host(cpus: u32, workloads: &[WorkloadSpec], grants: bool) -> SimHost {
    let config = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
    SimHost::new(Topology::synthetic(1, 1, cpus, 1), config, workloads, 3, grants).unwrap()
}

/// Lets so much time pass; what happened, and what is seen then.
fn pass(host: &mut SimHost, span: Nanos) -> (Vec<Event>, View) {
    let (mut view, mut events) = (host.view(), Vec::new());
    let until = host.sim().now() + span;
    while host.sim().now() < until {
        host.wait(Wake::At(until)).unwrap();
        host.observe(ALL, &mut view, &mut events).unwrap();
    }
    (events, view)
}

/// CPUs' worth of time that a workload used in this span.
fn used(host: &mut SimHost, id: WorkloadId, span: Nanos) -> f64 {
    let of = |view: &View| view.workloads.run_time[id.index()].value.0;
    let before = of(&pass(host, Nanos(1)).1);
    (of(&pass(host, span).1) - before) as f64 / span.0 as f64
}

fn apply(host: &mut SimHost, plan: &Plan) -> Vec<Verdict> {
    let mut events = Vec::new();
    host.apply(plan, &mut events).unwrap();
    let verdict = |event| match event {
        Event::Outcome(Outcome { verdict, .. }) => verdict,
        other => panic!("{other:?} is no outcome"),
    };
    events.into_iter().map(verdict).collect()
}

fn grant(cpu: u32, to: WorkloadId) -> Plan {
    Plan { grants: vec![GrantCommand::Grant(CpuId(cpu), to)], ..Plan::default() }
}

#[test]
fn a_workload_that_comes_later_begins_then() {
    let mut host = host(4, &[], false);
    pass(&mut host, Nanos::from_secs(1));
    let id = host.attach(&server("late", 10_000.0)).unwrap();
    host.attach(&periodic("also late")).unwrap();
    let (events, _) = pass(&mut host, Nanos::from_millis(100));
    assert!(events.contains(&Event::Attached(id)));
    let born = events.iter().filter(|event| matches!(event, Event::ThreadBorn(of, _) if *of == id)).count();
    let stats = host.sim().stats();
    assert!((900..1100).contains(&stats[0].arrived), "none for the second before: {}", stats[0].arrived);
    assert_eq!((born, stats[1].arrived), (2, 11));
}

#[test]
fn a_workload_that_is_gone_leaves_nothing_behind() {
    let mut host = host(2, &[batch("first", 2), batch("second", 2)], true);
    let [first, second] = [0, 1].map(WorkloadId);
    let rules = vec![Rule::Rank { workload: first, rank: 0 }];
    apply(&mut host, &Plan { rules, ..grant(0, first) });
    apply(&mut host, &grant(1, second));
    pass(&mut host, MILLI);
    assert!(host.detach(first) && !host.detach(first));
    let (events, view) = pass(&mut host, MILLI);
    assert!(events.contains(&Event::Detached(first)));
    assert!(view.workloads.spec[0].is_none() && view.workloads.run_time[0].usable().is_none());
    assert_eq!((view.cpus.holder[0], view.cpus.holder[1]), (None, Some(second)));
    assert_eq!(apply(&mut host, &grant(0, first)), [Verdict::Vanished]);
    assert_eq!(host.attach(&batch("third", 1)).unwrap(), first, "the slot is free again");
    assert_eq!(pass(&mut host, MILLI).1.workloads.run_time[0].value, Nanos::ZERO);
    apply(&mut host, &grant(0, first));
    assert!(used(&mut host, first, MILLI) > 0.99);
    // Without grants its CPU time goes to the others.
    let mut host = self::host(1, &[batch("first", 1), batch("second", 1)], false);
    assert!((0.4..0.6).contains(&used(&mut host, second, Nanos::from_millis(100))));
    host.detach(first);
    assert!(used(&mut host, second, Nanos::from_millis(100)) > 0.99);
}

#[test]
fn threads_are_born_and_end() {
    let mut host = host(4, &[batch("batch", 1), server("server", 30_000.0), periodic("periodic")], false);
    let [batch, server, periodic] = [0, 1, 2].map(WorkloadId);
    let before = used(&mut host, batch, Nanos::from_millis(50));
    let born = host.add_thread(batch).unwrap();
    let more = used(&mut host, batch, Nanos::from_millis(50));
    assert!((0.99..1.01).contains(&before) && more > 1.8, "{before}, then {more}");
    let had = pass(&mut host, MILLI).1.workloads.run_time[0].value;
    assert_eq!(host.end_thread(batch), Some(born));
    let (events, view) = pass(&mut host, Nanos(1));
    assert!(events.contains(&Event::ThreadDied(batch, born)));
    assert!(view.workloads.run_time[0].value >= had, "what it used stays counted");
    assert_eq!(host.end_thread(batch), None, "one stays");
    // 30,000 requests of 50 µs a second are 1.5 CPUs: one thread is too few, two are enough.
    host.end_thread(server).unwrap();
    pass(&mut host, Nanos::from_millis(50));
    let waits = |view: &View| view.workloads.queueing_delay[server.index()].value;
    let overloaded = waits(&pass(&mut host, MILLI).1);
    host.add_thread(server).unwrap();
    host.add_thread(server).unwrap();
    let (_, view) = pass(&mut host, Nanos::from_millis(100));
    assert!(overloaded > MILLI && waits(&view) < MILLI, "{overloaded}, then {}", waits(&view));
    host.add_thread(periodic).unwrap();
    let both = used(&mut host, periodic, Nanos::from_millis(100));
    assert!((0.35..0.45).contains(&both), "two threads of 2 ms in 10: {both}");
}

#[test]
fn demand_changes() {
    let mut host = host(6, &[batch("batch", 2), server("server", 1_000.0), periodic("periodic")], false);
    for demand in [0.9, 0.3, 0.0, 0.5] {
        for id in [0, 1, 2].map(WorkloadId) {
            host.set_demand(id, demand);
        }
        pass(&mut host, Nanos::from_millis(20));
        let used: Vec<f64> =
            (0..3).map(|id| used(&mut host.clone(), WorkloadId(id), Nanos::from_millis(200))).collect();
        let near = |used: f64, wanted: f64| (used - wanted).abs() < 0.1 * wanted + 0.05;
        assert!(near(used[0], if demand > 0.0 { 2.0 } else { 0.0 }), "{demand}: {used:?}");
        assert!(near(used[1], 2.0 * demand) && near(used[2], demand), "{demand}: {used:?}");
    }
}

#[test]
fn requests_are_sent() {
    let mut host = host(1, &[server("server", 1.0)], false);
    host.set_demand(WorkloadId(0), 0.0);
    host.send(WorkloadId(0), 7);
    pass(&mut host, MILLI);
    assert_eq!(host.sim().stats()[0].latencies.count(), 7);
}

#[test]
fn a_cpu_goes_offline_and_comes_back() {
    for grants in [false, true] {
        let mut host = host(2, &[batch("batch", 2)], grants);
        let (id, span) = (WorkloadId(0), Nanos::from_millis(50));
        let take_all = |host: &mut SimHost| {
            for cpu in host.online().iter() {
                apply(host, &grant(cpu.0, id));
            }
        };
        take_all(&mut host);
        assert!(used(&mut host, id, span) > 1.99, "grants: {grants}");
        host.set_online(CpuId(1), false);
        host.set_online(CpuId(0), false);
        let (events, view) = pass(&mut host, Nanos(1));
        assert!(events.contains(&Event::Offline(CpuId(1))));
        assert_eq!((host.online(), view.cpus.online), (CpuSet::one(CpuId(0)), host.online()), "the last one stays");
        let alone = used(&mut host, id, span);
        assert!((0.99..1.01).contains(&alone), "grants: {grants}: {alone}");
        assert_eq!(host.held(id).len(), usize::from(grants));
        assert!(!grants || matches!(apply(&mut host, &grant(1, id))[..], [Verdict::Refused(_)]));
        host.set_online(CpuId(1), true);
        take_all(&mut host);
        pass(&mut host, span);
        assert!(used(&mut host, id, span) > 1.99, "grants: {grants}");
    }
}

#[test]
fn signals_are_withheld() {
    let mut host = host(2, &[batch("batch", 1)], false);
    host.withhold(SignalSet::of(&[Signal::RunTime]));
    let (_, view) = pass(&mut host, MILLI);
    assert!(view.workloads.run_time[0].usable().is_none() && view.workloads.run_delay[0].usable().is_some());
    host.withhold(SignalSet::default());
    assert!(pass(&mut host, MILLI).1.workloads.run_time[0].usable().is_some());
}

#[test]
fn a_solo_run_ends_with_its_workload_and_pauses_who_comes() {
    let mut host = host(2, &[server("server", 1_000.0)], false);
    let solo = WorkloadId(0);
    let lease = Lease::of(solo, false, Nanos::from_millis(50));
    apply(&mut host, &Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() });
    let batch = host.attach(&batch("batch", 1)).unwrap();
    assert_eq!(used(&mut host, batch, MILLI), 0.0);
    host.detach(solo);
    let (events, _) = pass(&mut host, MILLI);
    assert!(events.contains(&Event::SoloEnded(solo, SoloEnd::Detached)));
    assert!(used(&mut host, batch, MILLI) > 0.99);
}

#[test]
fn contention_begins_with_the_first_workload_that_has_a_profile() {
    let stream = Profile { llc_references: 30.0, parallelism: 8.0, ..Profile::SPINNING };
    let misses = serde_json::from_str("[[0, 1.0]]").unwrap();
    let stream = |name| WorkloadSpec { profile: Some(Profile { misses, ..stream }.into()), ..batch(name, 1) };
    let mut host = host(4, &[batch("plain", 1)], false);
    pass(&mut host, Nanos::from_millis(10));
    let id = host.attach(&stream("stream")).unwrap();
    pass(&mut host, Nanos::from_millis(10));
    let (_, view) = pass(&mut host, Nanos::from_millis(10));
    let rate = |view: &View, id: WorkloadId| view.workloads.memory_bandwidth[id.index()].usable().map(|rate| rate.0);
    assert!(rate(&view, id).unwrap() > 1e8, "{:?}", rate(&view, id));
    host.detach(id);
    let again = host.attach(&batch("quiet", 1)).unwrap();
    pass(&mut host, Nanos::from_millis(10));
    let (_, view) = pass(&mut host, Nanos::from_millis(10));
    assert_eq!((again, rate(&view, again)), (id, Some(0.0)), "what was counted of the one before counts no more");
}
