//! The hardware's knobs and memory of another socket: what they do to programs that run for ever.

use quell_model::{
    Host, Knob, KnobSetting, Lease, LeaseRequest, LlcWays, Nanos, NodeSet, Plan, SignalSet, Target, Topology,
    WorkloadId,
};
use quell_sim::contention::ProfileName;
use quell_sim::workload::CpuList;
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

/// Two sockets of four cores; streaming threads on the first ("here") and on the second ("there").
fn machine() -> SimHost {
    let on = |name: &str, cpus: &str| WorkloadSpec {
        profile: Some(ProfileName::Known("streaming".into())),
        cpuset: Some(CpuList(cpus.parse().unwrap())),
        ..WorkloadSpec::be(name).busy(2)
    };
    let all = [on("here", "0-3"), on("there", "4-7")];
    SimHost::new(Topology::synthetic(2, 1, 4, 1), KernelConfig::default(), &all, 1, false).unwrap()
}

fn apply(host: &mut SimHost, plan: Plan) {
    let Ok(()) = host.apply(&plan, &mut Vec::new());
}

fn set(host: &mut SimHost, id: u32, knob: Knob) {
    let knobs = vec![KnobSetting { target: Target::Workload(WorkloadId(id)), knob }];
    apply(host, Plan { knobs, ..Plan::default() });
}

/// Instructions a nanosecond of both over the next 100 ms, after time to settle.
fn speeds(host: &mut SimHost) -> [f64; 2] {
    let pass = |host: &mut SimHost, millis: u64| {
        let until = host.now() + Nanos::from_millis(millis);
        while host.now() < until {
            let Ok(()) = host.wait(quell_model::Wake::At(until));
            // What happened is fetched, else the wait ends at once.
            let mut view = host.view();
            let Ok(()) = host.observe(SignalSet::default(), &mut view, &mut Vec::new());
        }
    };
    pass(host, 200);
    let (before, from) = (host.sim().counted(), host.now());
    pass(host, 100);
    let (now, span) = (host.sim().counted(), (host.now() - from).0 as f64);
    [0, 1].map(|at| now[at].since(&before[at]).instructions / span)
}

#[test]
fn a_throttle_slows_the_workload_and_a_solo_run_lifts_it() {
    let mut host = machine();
    let [free, other] = speeds(&mut host);
    set(&mut host, 0, Knob::Throttle(10));
    let [slow, still] = speeds(&mut host);
    assert!(slow < 0.8 * free, "{slow} of {free}");
    assert!((still / other - 1.0).abs() < 0.01, "the other socket's does not notice");
    let lease = Lease { within: Some("0-3".parse().unwrap()), ..Lease::of(WorkloadId(0), true, Nanos::from_secs(2)) };
    apply(&mut host, Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() });
    let [lifted, goes_on] = speeds(&mut host);
    assert!((lifted / free - 1.0).abs() < 0.01, "{lifted} of {free}");
    assert!(goes_on > 0.9 * other, "work on the other socket is not paused");
    apply(&mut host, Plan { leases: vec![LeaseRequest::End(WorkloadId(0))], ..Plan::default() });
    assert!((speeds(&mut host)[0] / slow - 1.0).abs() < 0.01, "and is back");
}

#[test]
fn memory_of_the_other_socket_is_slower_and_loads_its_controller() {
    let mut host = machine();
    let [near, alone] = speeds(&mut host);
    set(&mut host, 0, Knob::MemoryNodes(NodeSet::one(1)));
    let bytes = host.sim().memory_bytes();
    let [far, beside] = speeds(&mut host);
    assert_eq!(host.home(WorkloadId(0)), Some(1));
    assert!(far < 0.9 * near, "{far} of {near}");
    assert!(beside < 0.999 * alone, "{beside} of {alone}: they share a controller now");
    assert!(host.sim().memory_bytes() - bytes > 2e9, "the copying is traffic of both sockets");
    set(&mut host, 0, Knob::MemoryNodes(NodeSet::one(0)));
    assert!((speeds(&mut host)[0] / near - 1.0).abs() < 0.02);
}

#[test]
fn ways_of_one_llc_leave_the_other_as_it_is() {
    let mut host = machine();
    set(&mut host, 0, Knob::CacheWays(0xff));
    set(&mut host, 0, Knob::WaysOfLlc(LlcWays { llc: 1, mask: 0b11 }));
    speeds(&mut host);
    assert_eq!([0, 1].map(|llc| host.ways_of_llc(WorkloadId(0), llc)), [Some(0xff), Some(0b11)]);
}
