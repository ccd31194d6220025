//! What threads have of their own: weight, wake-up latency, warp.

use quell_model::{
    Class, CpuCount, CpuId, CpuSet, Event, Host, Knob, KnobSetting, Nanos, Plan, PreemptionMode, Stack, Target,
    ThreadId, Topology, Verdict, Warp, WorkloadId,
};
use quell_policy::AnyPolicy;
use quell_sim::host::drive;
use quell_sim::workload::{Arrivals, BatchSpec, CpuList};
use quell_sim::{Costs, FairScheduler, KernelConfig, SimHost, TaskId, WorkloadSpec};

const BOTH: [FairScheduler; 2] = [FairScheduler::Cfs, FairScheduler::Eevdf];

fn spinners(name: &str, threads: u32) -> WorkloadSpec {
    WorkloadSpec { threads, batch: Some(BatchSpec::default()), ..WorkloadSpec::new(name, Class::BestEffort) }
}

/// Everything runs on one CPU.
fn host(fair: FairScheduler, workloads: &[WorkloadSpec]) -> SimHost {
    let config = KernelConfig { fair, preemption: PreemptionMode::Full, costs: Costs::FREE, ..KernelConfig::default() };
    SimHost::new(Topology::synthetic(1, 1, 1, 1), config, workloads, 1, false).unwrap()
}

/// The threads are numbered from 1, workload after workload.
fn set(host: &mut SimHost, knobs: &[(i32, Knob)]) -> Verdict {
    let on = |&(tid, knob)| KnobSetting { target: Target::Thread(ThreadId { tid, start: 0 }), knob };
    let mut events = Vec::new();
    host.apply(&Plan { knobs: knobs.iter().map(on).collect(), ..Plan::default() }, &mut events).unwrap();
    let verdict = |event| if let Event::Outcome(outcome) = event { Some(outcome.verdict) } else { None };
    events.into_iter().find_map(verdict).unwrap()
}

fn run(host: &mut SimHost, time: Nanos) -> Vec<f64> {
    let mut stack = Stack::of_one(AnyPolicy::named("none").unwrap(), host.view());
    let until = host.now() + time;
    drive(host, &mut stack, until, |_, _| {});
    (0..4).map(|number| host.sim().kernel().run_time(TaskId(number)) as f64).collect()
}

#[test]
fn weights_of_threads_share_their_groups_part_and_groups_keep_theirs() {
    for fair in BOTH {
        for (one, other) in [(10, 11), (1, 100), (100, 1_000)] {
            let mut host = host(fair, &[spinners("one", 2), spinners("other", 2)]);
            set(&mut host, &[(1, Knob::Weight(one)), (2, Knob::Weight(other))]);
            let got = run(&mut host, Nanos::from_secs(40));
            let share = got[0] / (got[0] + got[1]);
            let due = f64::from(one) / f64::from(one + other);
            assert!((share / due - 1.0).abs() < 0.02, "{fair:?}, {one} to {other}: {share} of {due}");
            let of_first = (got[0] + got[1]) / got.iter().sum::<f64>();
            assert!((of_first - 0.5).abs() < 0.01, "{fair:?}: the groups share alike: {of_first}");
        }
    }
}

/// p99 of the latency of a thread that runs 50 µs now and then beside three that never rest, with this latency of its own.
fn tail(fair: FairScheduler, latency: Option<Nanos>) -> Nanos {
    let server =
        WorkloadSpec::lc("server", CpuCount::whole(1)).serving(1, Arrivals::Poisson(50.0), Nanos::from_micros(50));
    let mut host = host(fair, &[server, spinners("spinners", 3)]);
    set(&mut host, &[(1, Knob::WakeUpLatency(latency))]);
    run(&mut host, Nanos::from_secs(20));
    host.sim().stats()[0].latencies.quantile(0.99)
}

#[test]
fn a_short_latency_takes_the_cpu_at_once_and_a_long_one_takes_it_from_no_thread() {
    // On EEVDF the slice is the quantum, too, and its p99 is not ordered like that: not shown here.
    let (short, long) = (Nanos::from_micros(100), Nanos::from_millis(100));
    let (quick, slow) = (tail(FairScheduler::Cfs, Some(short)), tail(FairScheduler::Cfs, Some(long)));
    assert!(slow > Nanos(quick.0 * 3 / 2), "{quick} and {slow}");
    assert!(quick < Nanos::from_millis(3), "{quick}");
}

#[test]
fn what_no_thread_can_have_is_refused_and_nothing_of_the_plan_is_set() {
    let mut host = host(FairScheduler::Cfs, &[spinners("one", 2), spinners("other", 2)]);
    for bad in [Knob::Weight(0), Knob::Weight(10_001), Knob::WakeUpLatency(Some(Nanos::from_millis(101)))] {
        let verdict = set(&mut host, &[(1, Knob::Weight(1)), (2, bad)]);
        assert!(matches!(verdict, Verdict::Refused(_)), "{bad:?}: {verdict:?}");
    }
    let got = run(&mut host, Nanos::from_secs(4));
    assert!((got[0] / got[1] - 1.0).abs() < 0.05, "{got:?}");
}

#[test]
fn under_bvt_a_warp_goes_first_within_its_limit_and_shares_are_kept() {
    let mut fair = host(FairScheduler::Bvt, &[spinners("one", 2), spinners("other", 2)]);
    set(&mut fair, &[(1, Knob::Weight(300))]);
    let got = run(&mut fair, Nanos::from_secs(20));
    assert!((got[0] / got[1] - 3.0).abs() < 0.1, "{got:?}");
    assert!(((got[0] + got[1]) / (got[2] + got[3]) - 1.0).abs() < 0.02, "{got:?}");
    // Borrowed time is paid back: a warp moves when a thread runs, not how long.
    let warp = |limit| Warp { by: Nanos::from_millis(50), limit, rest: Nanos::from_millis(100) };
    for limit in [Nanos::ZERO, Nanos::from_millis(5)] {
        let mut host = host(FairScheduler::Bvt, &[spinners("one", 2), spinners("other", 2)]);
        set(&mut host, &[(1, Knob::Warp(Some(warp(limit))))]);
        let early = run(&mut host, Nanos::from_millis(200));
        let late = run(&mut host, Nanos::from_secs(20));
        assert!(early[0] > early[1], "{limit}: it is first: {early:?}");
        assert!((late[0] / late[1] - 1.0).abs() < 0.05, "{limit}: {late:?}");
    }
}

#[test]
fn a_waking_thread_under_bvt_is_before_others_by_its_warp() {
    let tail = |by: Option<Nanos>| {
        let server =
            WorkloadSpec::lc("server", CpuCount::whole(1)).serving(1, Arrivals::Poisson(50.0), Nanos::from_micros(200));
        let pinned = WorkloadSpec { affinity: vec![CpuList(CpuSet::one(CpuId(0)))], ..server };
        let mut host = host(FairScheduler::Bvt, &[pinned, spinners("spinners", 3)]);
        let knob = by.map(|by| Warp { by, limit: Nanos::ZERO, rest: Nanos::ZERO });
        let on = KnobSetting { target: Target::Workload(WorkloadId(0)), knob: Knob::Warp(knob) };
        host.apply(&Plan { knobs: vec![on], ..Plan::default() }, &mut Vec::new()).unwrap();
        run(&mut host, Nanos::from_secs(20));
        host.sim().stats()[0].latencies.quantile(0.99)
    };
    let (plain, warped) = (tail(None), tail(Some(Nanos::from_millis(20))));
    assert!(warped < Nanos::from_millis(1) && plain > Nanos(2 * warped.0), "{plain} and {warped}");
}

/// docs/operate/dasec.md: a thread of weight 1 among `n` of its group, whose weights sum up to 100 × n, gets at least its part of
/// what its group has on the CPU, whatever its wake-up latency; groups' shares stay.
#[test]
fn no_thread_starves_at_the_least_weight_and_the_longest_latency() {
    for fair in BOTH {
        let mut host = host(fair, &[spinners("one", 4), spinners("other", 4)]);
        let latency = Knob::WakeUpLatency(Some(Nanos::from_millis(24)));
        set(
            &mut host,
            &[
                (1, Knob::Weight(1)),
                (1, latency),
                (2, Knob::Weight(133)),
                (3, Knob::Weight(133)),
                (4, Knob::Weight(133)),
            ],
        );
        let got = run(&mut host, Nanos::from_secs(100));
        let group: f64 = got.iter().sum();
        assert!((group / 50e9 - 1.0).abs() < 0.02, "{fair:?}: half of the CPU is its group's: {group}");
        let due = group / 400.0;
        assert!(got[0] > 0.8 * due, "{fair:?}: {} of {due}", got[0]);
    }
}
