//! Failures on a host: each is reported as the contract says, and what fails changes nothing.

use quell_model::{
    Class, CpuId, CpuSet, Event, GrantCommand, Host, Knob, KnobKind, KnobSetting, Nanos, Outcome, Part, Plan, Refusal,
    Rule, SignalSet, Target, Topology, Verdict, Wake, WorkloadId,
};
use quell_sim::faulty::Failure;
use quell_sim::workload::BatchSpec;
use quell_sim::{Costs, Faults, Faulty, KernelConfig, SimHost, WorkloadSpec};

const BATCH: WorkloadId = WorkloadId(0);

/// Eight CPUs that are granted, and a workload that wants them all.
fn host(seed: u64) -> Faulty<SimHost> {
    let config = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
    let batch =
        WorkloadSpec { threads: 8, batch: Some(BatchSpec::default()), ..WorkloadSpec::new("batch", Class::BestEffort) };
    Faulty::new(SimHost::new(Topology::synthetic(1, 1, 8, 1), config, &[batch], 1, true).unwrap(), seed)
}

fn grants() -> Plan {
    let grants = (0..8).map(|cpu| GrantCommand::Grant(CpuId(cpu), BATCH)).collect();
    Plan { grants, rules: vec![Rule::Limit { workload: BATCH, cpus: 8 }], ..Plan::default() }
}

fn apply(host: &mut Faulty<SimHost>, plan: &Plan) -> Vec<(Part, Verdict)> {
    let mut events = Vec::new();
    host.apply(plan, &mut events).unwrap();
    let outcome = |event| match event {
        Event::Outcome(Outcome { part, verdict, .. }) => (part, verdict),
        other => panic!("{other:?} is no outcome"),
    };
    events.into_iter().map(outcome).collect()
}

fn look(host: &mut Faulty<SimHost>) -> Vec<Event> {
    let (mut view, mut events) = (host.view(), Vec::new());
    host.observe(SignalSet::default(), &mut view, &mut events).unwrap();
    events
}

#[test]
fn a_refused_command_has_its_outcome_in_its_place_and_does_not_reach_the_host() {
    let mut host = host(7);
    host.faults.grants_refused = 0.5;
    let reported = apply(&mut host, &grants());
    let parts: Vec<Part> = reported.iter().map(|&(part, _)| part).collect();
    assert_eq!(parts, [vec![Part::Rule(0)], (0..8).map(Part::Grant).collect()].concat());
    let applied = |(part, verdict): &(Part, Verdict)| match (part, verdict) {
        (Part::Grant(at), Verdict::Applied(_)) => Some(CpuId(*at)),
        _ => None,
    };
    let granted: CpuSet = reported.iter().filter_map(applied).collect();
    assert_eq!(host.held(BATCH), granted);
    assert!((1..8).contains(&granted.len()), "with seed 7: {granted}");
}

#[test]
fn the_same_seed_fails_alike() {
    let run = |seed| {
        let mut host = host(seed);
        host.faults = Faults { grants_refused: 0.5, others_refused: 0.5, ..Faults::default() };
        [apply(&mut host, &grants()), apply(&mut host, &grants())]
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_late_grant_is_pending_until_it_is_carried_out() {
    let mut host = host(1);
    host.faults.grants_late = Nanos::from_micros(3);
    look(&mut host);
    let reported = apply(&mut host, &grants());
    assert_eq!(reported[1], (Part::Grant(0), Verdict::Pending(Nanos::from_micros(3))));
    host.wait(Wake::At(Nanos::from_micros(2))).unwrap();
    assert!(host.held(BATCH).is_empty());
    host.wait(Wake::At(Nanos::from_millis(1))).unwrap();
    assert_eq!((host.held(BATCH).len(), host.sim().now()), (8, Nanos::from_micros(3)));
}

#[test]
fn a_failed_look_loses_no_event() {
    let mut host = host(1);
    host.faults.looks_failed = 1.0;
    let (mut view, mut events) = (host.view(), Vec::new());
    let looked = host.observe(SignalSet::default(), &mut view, &mut events);
    assert!(matches!(looked, Err(Failure::Injected)) && events.is_empty());
    host.faults.looks_failed = 0.0;
    assert!(look(&mut host).contains(&Event::Attached(BATCH)));
}

#[test]
fn a_knob_that_was_taken_away_is_told_and_refused() {
    let mut host = host(1);
    host.faults.without = Some(KnobKind::Weight);
    let knob = |knob| Plan { knobs: vec![KnobSetting { target: Target::Workload(BATCH), knob }], ..Plan::default() };
    let reported = apply(&mut host, &knob(Knob::Weight(5)));
    assert!(matches!(reported[..], [(Part::Knobs, Verdict::Refused(Refusal::Unsupported(_)))]), "{reported:?}");
    let reported = apply(&mut host, &knob(Knob::Cpus(CpuSet::first(2))));
    assert!(matches!(reported[..], [(Part::Knobs, Verdict::Applied(_))]), "{reported:?}");
    assert_ne!(host.capabilities().knobs, (*host).capabilities().knobs);
}
