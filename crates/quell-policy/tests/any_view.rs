//! No view, however strange, makes a policy panic or reach beyond its pool.

mod common;

use std::sync::Arc;

use common::{any_spec, any_topology, every_policy};
use proptest::prelude::*;
use quell_model::signal::{Subject, Unit};
use quell_model::{
    Controls, CpuCount, CpuId, CpuSet, Description, Event, FrequencyControl, GrantCommand, Key, Knob, Nanos, Outcome,
    Part, Plan, Policy, Quality, Refusal, Reservation, Sample, SchedClass, Signal, SignalInfo, SoloEnd, ThreadId,
    ThreadState, ThrottleControl, ThrottleUnit, Topology, Verdict, View, WayControl, Workload, WorkloadId,
};

fn any_nanos() -> impl Strategy<Value = Nanos> {
    prop_oneof![Just(Nanos::ZERO), Just(Nanos::MAX), (0u64..10_000_000_000).prop_map(Nanos)]
}

fn any_sample<T: Copy + std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Sample<T>> {
    let quality =
        prop_oneof![Just(Quality::Absent), Just(Quality::Stale), Just(Quality::Estimated), Just(Quality::Exact)];
    (value, any_nanos(), any_nanos(), quality).prop_map(|(value, at, window, quality)| Sample {
        value,
        at,
        window,
        quality,
    })
}

fn any_rate() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(f64::MAX), 0.0..1e12]
}

fn any_cpus() -> impl Strategy<Value = CpuSet> {
    prop::collection::vec(0u32..30, 0..16).prop_map(|cpus| cpus.into_iter().map(CpuId).collect())
}

fn any_id() -> impl Strategy<Value = WorkloadId> {
    prop_oneof![9 => (0u32..8).prop_map(WorkloadId), 1 => Just(WorkloadId(u32::MAX))]
}

fn any_thread() -> impl Strategy<Value = (ThreadId, WorkloadId, CpuId, Nanos, bool)> {
    let thread = (0i32..20, 0u64..2).prop_map(|(tid, start)| ThreadId { tid, start });
    (thread, any_id(), (0u32..30).prop_map(CpuId), any_nanos(), any::<bool>())
}

/// Numbers of every signal of workloads, CPUs and the machine; the columns have any length.
fn any_numbers() -> impl Strategy<Value = Vec<(Signal, Vec<Sample<f64>>)>> {
    let any_column = |line: &'static SignalInfo| {
        let (value, rows) = match (line.unit, line.of) {
            (Unit::Ratio, _) => ((0.0..=1.0).boxed(), 0..8),
            (Unit::Nanoseconds, of) => (any_nanos().prop_map(|time| time.0 as f64).boxed(), 0..rows(of)),
            (_, of) => (any_rate().boxed(), 0..rows(of)),
        };
        prop::collection::vec(any_sample(value), rows).prop_map(|column| (line.signal, column))
    };
    Signal::TABLE.iter().filter(|line| !line.key.is_empty()).map(any_column).collect::<Vec<_>>()
}

fn rows(of: Subject) -> usize {
    if of == Subject::Cpu { 30 } else { 8 }
}

fn any_controls() -> impl Strategy<Value = Controls> {
    let cache = (0u32..4, 1u32..=32, 0u32..4).prop_map(|(llc, ways, least)| WayControl {
        llc,
        ways,
        least,
        contiguous: true,
        with_devices: 0,
    });
    let frequency = (any_cpus(), 0u32..3_000_000, 0u32..3_000_000, prop_oneof![Just(0), Just(100_000)])
        .prop_map(|(cpus, min_khz, max_khz, step_khz)| FrequencyControl { cpus, min_khz, max_khz, step_khz });
    let throttle = (0u32..50, 50u32..3000, 0u32..20).prop_map(|(least, most, step)| ThrottleControl {
        least,
        most,
        step,
        unit: ThrottleUnit::PerCent,
    });
    (
        prop::collection::vec(cache, 0..3),
        prop::collection::vec(frequency, 0..3),
        prop::option::of(throttle),
        prop::collection::vec(0u32..70, 0..3),
    )
        .prop_map(|(caches, frequencies, throttle, nodes)| Controls {
            caches,
            groups_left: None,
            frequencies,
            gpu: None,
            throttle,
            nodes,
        })
}

prop_compose! {
    fn any_view()(
        topology in any_topology(),
        now in any_nanos(),
        owned in prop::option::of(prop::collection::vec(any_id(), 0..5)),
        pool in any_cpus(),
        spec in prop::collection::vec(prop::option::of(any_spec().prop_map(Arc::new)), 0..8),
        numbers in any_numbers(),
        (online, idle, banned, away) in (any_cpus(), any_cpus(), any_cpus(), any_cpus()),
        holder in prop::collection::vec(prop::option::of(any_id()), 0..30),
        threads in prop::collection::vec(any_thread(), 0..20),
        threads_at in any_nanos(),
        controls in any_controls(),
    ) -> View {
        let mut view = View::new(Arc::new(topology));
        view.controls = Arc::new(controls);
        view.now = now;
        view.workloads.spec = spec;
        for (signal, column) in numbers {
            view.machine.put(signal, column.first().copied().unwrap_or_default());
            view.cpus.fill(signal, column.iter().copied());
            view.workloads.fill(signal, column.into_iter());
        }
        view.cpus.online = online.intersection(&view.topology.all());
        (view.cpus.idle, view.cpus.banned, view.cpus.away, view.cpus.holder) = (idle, banned, away, holder);
        view.scope.workloads = owned;
        view.scope.pool = pool;
        view.threads.at = threads_at;
        for (id, workload, cpu, span, runs) in threads {
            view.threads.id.push(id);
            view.threads.workload.push(workload);
            view.threads.cpu.push(cpu);
            view.threads.state.push(if runs { ThreadState::Runnable } else { ThreadState::Sleeping });
            view.threads.run_time.push(span);
            view.threads.run_delay.push(span);
            view.threads.class.push(SchedClass::NORMAL);
        }
        view
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let verdict = prop_oneof![
        any_nanos().prop_map(Verdict::Applied),
        any_nanos().prop_map(Verdict::Pending),
        Just(Verdict::Vanished),
        any_nanos().prop_map(|until| Verdict::Refused(Refusal::DutyCycle(until))),
        Just(Verdict::Refused(Refusal::Unsupported("no such knob".into()))),
        Just(Verdict::Refused(Refusal::System("EBUSY".into()))),
    ];
    let part = prop_oneof![
        Just(Part::Knobs),
        (0u32..4).prop_map(Part::Grant),
        (0u32..4).prop_map(Part::Rule),
        Just(Part::Sample(0)),
        Just(Part::Lease(0)),
    ];
    prop_oneof![
        any_id().prop_map(Event::Attached),
        any_id().prop_map(Event::Detached),
        any_thread().prop_map(|(thread, id, ..)| Event::ThreadBorn(id, thread)),
        any_thread().prop_map(|(thread, id, ..)| Event::ThreadDied(id, thread)),
        any_thread().prop_map(|(thread, id, ..)| Event::ThreadLeft(id, thread)),
        (0u32..30, any_id()).prop_map(|(cpu, id)| Event::Yielded(CpuId(cpu), id)),
        (0u32..30).prop_map(|cpu| Event::Offline(CpuId(cpu))),
        (0u32..30).prop_map(|cpu| Event::Online(CpuId(cpu))),
        any_id().prop_map(Event::QueueFormed),
        Just(Event::SamplesReady),
        any_id().prop_map(Event::SoloBegan),
        any_id().prop_map(Event::Spared),
        any_id().prop_map(|id| Event::SoloEnded(id, SoloEnd::Elapsed)),
        any_id().prop_map(|id| Event::SoloEnded(id, SoloEnd::Passed)),
        any_id().prop_map(Event::LatencyArrived),
        (any_id(), 0u32..30, 0u64..9).prop_map(|(id, cpu, ns)| Event::BudgetExhausted(id, CpuId(cpu), Nanos(ns))),
        (0u64..8, part, verdict).prop_map(|(plan, part, verdict)| Event::Outcome(Outcome { plan, part, verdict })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn no_view_makes_a_policy_panic(
        steps in prop::collection::vec((any_view(), prop::collection::vec(any_event(), 0..6)), 1..8),
    ) {
        for mut policy in every_policy() {
            let mut plan = Plan::default();
            for (number, (view, events)) in steps.iter().enumerate() {
                plan.begin(number as u64);
                policy.step(view, events, &mut plan);
                let pool = view.pool();
                for command in &plan.grants {
                    let (GrantCommand::Grant(cpu, _) | GrantCommand::Revoke(cpu)) = *command;
                    prop_assert!(pool.contains(cpu), "{} touches CPU {}", policy.describe().name, cpu);
                    let is_away = view.cpus.away.contains(cpu) && matches!(command, GrantCommand::Grant(..));
                    prop_assert!(!is_away, "{} grants CPU {}, which a real-time thread has", policy.describe().name, cpu);
                }
                for setting in &plan.knobs {
                    if let Knob::Cpus(cpus) = setting.knob {
                        prop_assert!(!cpus.is_empty() && cpus.is_subset(&pool), "{}: {setting:?}", policy.describe().name);
                    }
                }
            }
        }
    }
}

/// A workload without what a policy does not say that it acts on.
fn bared(policy: &Description, spec: &Workload) -> Workload {
    let mut bare = spec.clone();
    for key in Key::ALL.iter().filter(|key| !policy.uses(**key, spec)) {
        match key {
            Key::Cpus => bare.cpus = CpuCount::ZERO,
            Key::Limit => bare.limit = None,
            Key::Reservation => bare.reservation = Reservation::Standard,
            Key::Slo => bare.slo = None,
            Key::Grace => bare.grace = None,
            Key::Pausable => bare.pausable = false,
            Key::Demand => bare.demand = None,
        }
    }
    bare
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 500, ..ProptestConfig::default() })]

    /// What a warning says has no effect has none.
    #[test]
    fn a_policy_acts_on_no_key_that_it_does_not_declare(
        steps in prop::collection::vec((any_view(), prop::collection::vec(any_event(), 0..6)), 1..6),
    ) {
        for mut policy in every_policy() {
            let (mut other, described) = (policy.clone(), policy.describe());
            let (mut plan, mut bare_plan) = (Plan::default(), Plan::default());
            for (number, (view, events)) in steps.iter().enumerate() {
                let mut bare = view.clone();
                for spec in bare.workloads.spec.iter_mut().flatten() {
                    *spec = Arc::new(bared(described, spec));
                }
                plan.begin(number as u64);
                bare_plan.begin(number as u64);
                policy.step(view, events, &mut plan);
                other.step(&bare, events, &mut bare_plan);
                prop_assert_eq!(&plan.knobs, &bare_plan.knobs, "{}", described.name);
                prop_assert_eq!(&plan.grants, &bare_plan.grants, "{}", described.name);
                prop_assert_eq!(&plan.rules, &bare_plan.rules, "{}", described.name);
                prop_assert_eq!(&plan.leases, &bare_plan.leases, "{}", described.name);
            }
        }
    }
}

/// The machine that a policy saw first is not the one that it sees next.
#[test]
fn a_machine_that_changes_shape_is_survived() {
    for mut policy in every_policy() {
        for topology in
            [Topology::synthetic(2, 1, 4, 2), Topology::synthetic(1, 1, 1, 1), Topology::synthetic(1, 2, 8, 1)]
        {
            let mut view = View::new(topology.into());
            view.workloads.spec = vec![Some(Arc::new(quell_model::Workload::new(
                "w",
                quell_model::Class::LatencyCritical,
                quell_model::CpuCount::whole(2),
            )))];
            view.workloads.queueing_delay = vec![Sample::exact(Nanos::MAX, Nanos::ZERO)];
            policy.step(&view, &[], &mut Plan::default());
        }
    }
}
