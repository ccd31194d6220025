//! The toy host does what a policy may rely on.

use quell_model::{
    Class, CpuCount, CpuId, CpuSet, Event, GrantCommand, Host, Knob, KnobKind, KnobSetting, Lease, LeaseRequest, Nanos,
    Outcome, Part, Plan, Rule, SchedClass, Signal, SignalSet, SoloEnd, Target, Topology, Verdict, Wake, Workload,
    WorkloadId,
};
use quell_toy::{Arrivals, Machine, ToyHost, ToyWorkload};

fn host(cores: u32, threads_per_core: u32) -> ToyHost {
    ToyHost::new(Topology::synthetic(1, 1, cores, threads_per_core), Machine::default())
}

fn apply(host: &mut ToyHost, plan: &Plan) -> Vec<Verdict> {
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

fn knobs(settings: &[(Target, Knob)]) -> Plan {
    let knobs = settings.iter().map(|&(target, knob)| KnobSetting { target, knob }).collect();
    Plan { knobs, ..Plan::default() }
}

/// Waits for this long and returns what happened.
fn pass(host: &mut ToyHost, span: Nanos) -> Vec<Event> {
    let (mut events, until) = (Vec::new(), host.now() + span);
    let mut view = host.view();
    while host.now() < until {
        host.wait(Wake::At(until)).unwrap();
        host.observe(SignalSet::default(), &mut view, &mut events).unwrap();
    }
    events
}

const MICRO: Nanos = Nanos::from_micros(1);

#[test]
fn a_granted_cpu_works_the_queue_off_and_is_yielded() {
    let mut host = host(2, 1);
    let lc = host.attach(ToyWorkload::lc("lc", CpuCount::whole(1)).requests(Arrivals::None, Nanos::from_micros(10)));
    host.send(lc, 2);
    assert_eq!(apply(&mut host, &grant(1, lc)), [Verdict::Applied(Nanos::ZERO)]);
    let events = pass(&mut host, Nanos::from_micros(19));
    assert!(events.contains(&Event::QueueFormed(lc)));
    assert_eq!(host.held(lc), CpuSet::one(CpuId(1)));
    let events = pass(&mut host, MICRO);
    assert!(events.contains(&Event::Yielded(CpuId(1), lc)));
    assert_eq!(host.completed(lc), (2, Nanos::from_micros(20)));
    assert!(host.held(lc).is_empty());
}

#[test]
fn a_busy_sibling_slows_a_request_and_a_ban_ends_with_it() {
    let mut host = host(1, 2);
    let lc = host.attach(ToyWorkload::lc("lc", CpuCount::whole(1)).requests(Arrivals::None, Nanos::from_micros(60)));
    let be = host.attach(ToyWorkload::be("be").requests(Arrivals::Endless, MICRO));
    host.send(lc, 2);
    let mut both = grant(0, lc);
    both.grants.push(GrantCommand::Grant(CpuId(1), be));
    apply(&mut host, &both);
    pass(&mut host, Nanos::from_micros(50));
    // Half of the request is done at 0.6 of the speed; with the sibling parked the other half takes 30 µs.
    let ban = Rule::SiblingBan { cpu: CpuId(0), request_start: Nanos::ZERO };
    apply(&mut host, &Plan { rules: vec![ban], ..Plan::default() });
    assert_eq!(host.banned(), CpuSet::one(CpuId(1)));
    let refused = apply(&mut host, &grant(1, lc));
    assert!(matches!(refused[..], [Verdict::Refused(_)]), "{refused:?}");
    pass(&mut host, Nanos::from_micros(29));
    assert_eq!(host.completed(lc).0, 0);
    pass(&mut host, MICRO);
    assert_eq!(host.completed(lc), (1, Nanos::from_micros(80)));
    assert!(host.banned().is_empty(), "the next request must not inherit the ban");
}

#[test]
fn knobs_apply_as_a_whole_or_not_at_all() {
    let mut host = host(2, 1);
    let be = host.attach(ToyWorkload::be("be").threads(&[1.0]));
    let (good, bad) = (Knob::Cpus(CpuSet::one(CpuId(1))), Knob::Weight(0));
    let verdicts = apply(&mut host, &knobs(&[(Target::Workload(be), good), (Target::Workload(be), bad)]));
    assert!(matches!(verdicts[..], [Verdict::Refused(_)]), "{verdicts:?}");
    assert_eq!((host.cpus_of(be), host.knobs_set()), (CpuSet::first(2), 0));
    apply(&mut host, &knobs(&[(Target::Workload(be), good)]));
    assert_eq!(host.cpus_of(be), CpuSet::one(CpuId(1)));
    assert_eq!(apply(&mut host, &knobs(&[(Target::Workload(WorkloadId(7)), good)])), [Verdict::Vanished]);
    for mask in [0, 0b101, 1 << 20] {
        let verdicts = apply(&mut host, &knobs(&[(Target::Workload(be), Knob::CacheWays(mask))]));
        assert!(matches!(verdicts[..], [Verdict::Refused(_)]), "{mask:b}");
    }
    host.faults.without = Some(KnobKind::Weight);
    assert!(matches!(apply(&mut host, &knobs(&[(Target::Workload(be), Knob::Weight(5))]))[..], [Verdict::Refused(_)]));
}

#[test]
fn threads_share_by_class_and_weight() {
    let mut host = host(1, 1);
    let real_time = host.attach(ToyWorkload::lc("rt", CpuCount::whole(1)).threads(&[0.4]));
    let heavy = host.attach(ToyWorkload::be("heavy").threads(&[1.0]));
    let light = host.attach(ToyWorkload::be("light").threads(&[1.0]));
    let idle = host.attach(ToyWorkload::be("idle").threads(&[1.0]));
    let fifo = Knob::Class(SchedClass::Fifo { priority: 1 });
    apply(
        &mut host,
        &knobs(&[
            (Target::Workload(real_time), fifo),
            (Target::Workload(heavy), Knob::Weight(200)),
            (Target::Workload(idle), Knob::IdleOnly(true)),
        ]),
    );
    pass(&mut host, Nanos::from_millis(100));
    let percent = |id| host.run_time(id).0 / 1_000_000;
    assert_eq!((percent(real_time), percent(heavy), percent(light), percent(idle)), (40, 40, 20, 0));
}

#[test]
fn a_lease_pauses_best_effort_work_and_ends_by_itself() {
    let mut host = host(2, 1);
    let lc = host.attach(ToyWorkload::lc("lc", CpuCount::whole(1)).threads(&[1.0]));
    let be = host.attach(ToyWorkload::be("be").threads(&[1.0]));
    let lease = Lease { solo: lc, lift_isolations: true, at_most: Nanos::from_millis(10) };
    apply(&mut host, &Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() });
    let events = pass(&mut host, Nanos::from_millis(30));
    assert!(events.contains(&Event::SoloBegan(lc)));
    assert!(events.contains(&Event::SoloEnded(lc, SoloEnd::Elapsed)));
    assert_eq!(host.run_time(lc), Nanos::from_millis(30));
    assert_eq!(host.run_time(be), Nanos::from_millis(20));
    let again = apply(&mut host, &Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() });
    assert!(matches!(again[..], [Verdict::Refused(_)]), "solo runs have had their share: {again:?}");
}

#[test]
fn samples_come_when_they_were_asked_for() {
    let mut host = host(2, 1);
    let be = host.attach(ToyWorkload::be("be").requests(Arrivals::Endless, MICRO).bandwidth(6.4e9));
    apply(&mut host, &grant(0, be));
    pass(&mut host, Nanos::from_micros(99));
    let wanted = SignalSet::of(&[Signal::LlcMisses, Signal::MemoryBandwidth]);
    let sample = quell_model::SampleRequest { signals: wanted, cpus: CpuSet::first(2) };
    let verdicts = apply(&mut host, &Plan { samples: vec![sample], ..Plan::default() });
    assert_eq!(verdicts, [Verdict::Pending(Nanos::from_micros(100))]);
    assert_eq!(pass(&mut host, MICRO), [Event::SamplesReady]);
    let (mut view, mut events) = (host.view(), Vec::new());
    host.observe(wanted, &mut view, &mut events).unwrap();
    assert_eq!(view.cpus.llc_misses[0].usable(), Some(10_000), "6.4 GB/s are 100 misses per µs");
    assert_eq!(view.cpus.llc_misses[1].usable(), Some(0));
    assert!((view.machine.memory_bandwidth.value.0 - 6.4e9).abs() < 1.0);
}

#[test]
fn rules_hand_cpus_over_at_the_event() {
    let mut host = host(1, 1);
    let lc = host.attach(ToyWorkload::lc("lc", CpuCount::whole(1)).requests(Arrivals::None, MICRO));
    let be = host.attach(ToyWorkload::be("be").requests(Arrivals::Endless, MICRO));
    let rules = vec![Rule::Guaranteed { workload: lc, cpus: 1 }, Rule::Rank { workload: be, rank: 0 }];
    apply(&mut host, &Plan { rules, ..grant(0, be) });
    host.send(lc, 1);
    assert_eq!(host.held(lc).len(), 1, "a wake-up takes the guaranteed CPU at once");
    pass(&mut host, Nanos::from_micros(2));
    assert_eq!(host.held(be).len(), 1, "the next in line inherits what is yielded");
}

#[test]
fn a_vanished_workload_leaves_nothing_behind() {
    let mut host = host(2, 1);
    let spec = Workload::new("x", Class::LatencyCritical, CpuCount::whole(1));
    let id = host.attach(ToyWorkload::new(spec).requests(Arrivals::Endless, MICRO));
    apply(&mut host, &grant(0, id));
    host.detach(id);
    assert!(pass(&mut host, MICRO).contains(&Event::Detached(id)));
    assert_eq!(apply(&mut host, &grant(0, id)), [Verdict::Vanished]);
    assert_eq!(host.attach(ToyWorkload::be("y")), id, "the slot is free again");
    assert!(host.held(id).is_empty());
}

#[test]
fn a_late_grant_is_pending() {
    let late = Machine { grant_latency: Nanos::from_micros(3), ..Machine::default() };
    let mut host = ToyHost::new(Topology::synthetic(1, 1, 1, 1), late);
    let be = host.attach(ToyWorkload::be("be").requests(Arrivals::Endless, MICRO));
    assert_eq!(apply(&mut host, &grant(0, be)), [Verdict::Pending(Nanos::from_micros(3))]);
    pass(&mut host, Nanos::from_micros(3));
    assert_eq!(host.held(be).len(), 1);
}

#[test]
fn a_stack_drives_a_policy() {
    struct Greedy;
    impl quell_model::Policy for Greedy {
        fn describe(&self) -> &'static quell_model::Description {
            const NEEDS: &quell_model::Description = &quell_model::Description {
                name: "greedy",
                summary: "",
                source: "",
                interval: MICRO,
                signals: &[],
                knobs: &[],
                rules: &[],
                keys: &[],
                grants: true,
            };
            NEEDS
        }
        fn step(&mut self, view: &quell_model::View, _: &[Event], plan: &mut Plan) -> Wake {
            for cpu in view.cpus.idle.iter() {
                plan.grants.push(GrantCommand::Grant(cpu, WorkloadId(0)));
            }
            Wake::OnEvent
        }
    }
    let mut host = host(4, 1);
    let be = host.attach(ToyWorkload::be("be").requests(Arrivals::Endless, MICRO));
    let mut stack = quell_model::Stack::of_one(Greedy, host.view());
    let mut applied = 0;
    quell_toy::run(&mut host, &mut stack, Nanos::from_millis(1), |_, stack| {
        applied += stack
            .stepped()
            .flat_map(|layer| &layer.outcomes)
            .filter(|event| matches!(event, Event::Outcome(Outcome { part: Part::Grant(_), .. })))
            .count();
    });
    assert_eq!((host.held(be).len(), applied), (4, 4));
}
