//! Requests that pass through several threads: against theory, and what makes them slow.

use std::collections::BTreeMap;

use proptest::prelude::*;
use quell_model::{Class, Nanos, Topology};
use quell_sim::workload::graph::{Clients, GraphSpec, LockOrder, LockSpec, RequestSpec, StageSpec, Step};
use quell_sim::workload::{Arrivals, BatchSpec, ParallelSpec, PeriodicSpec, Service, WorkloadSpec};
use quell_sim::{Costs, KernelConfig, Population, Sim, TaskId};

fn free_kernel() -> KernelConfig {
    KernelConfig { costs: Costs::FREE, ..KernelConfig::default() }
}

fn pool(name: &str, threads: u32) -> WorkloadSpec {
    WorkloadSpec { threads, pool: Some(BTreeMap::new()), ..WorkloadSpec::new(name, Class::LatencyCritical) }
}

fn stage(name: &str, on: &str, after: &[&str], steps: Vec<Step>) -> StageSpec {
    let after = after.iter().map(|&name| name.to_owned()).collect();
    StageSpec { name: name.into(), on: on.into(), after, profile: None, steps }
}

fn request(name: &str, arrivals: Arrivals, stages: Vec<StageSpec>) -> RequestSpec {
    RequestSpec { name: name.into(), copies: 1, arrivals: Some(arrivals), clients: None, at_most: None, stages }
}

fn micros(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

fn work(time: u64) -> Step {
    Step::Work(Service::Constant(micros(time)))
}

fn lock(name: &str, order: LockOrder) -> LockSpec {
    LockSpec { name: name.into(), copies: 1, order }
}

fn sim(cpus: u32, config: KernelConfig, workloads: &[WorkloadSpec], requests: Vec<RequestSpec>) -> Sim {
    with_locks(cpus, config, workloads, requests, vec![])
}

fn with_locks(
    cpus: u32,
    config: KernelConfig,
    workloads: &[WorkloadSpec],
    requests: Vec<RequestSpec>,
    locks: Vec<LockSpec>,
) -> Sim {
    let graphs = GraphSpec { requests, locks };
    let mut sim =
        Sim::new(Topology::synthetic(1, 1, cpus, 1), config, Population { workloads, vms: &[], requests: &graphs }, 11)
            .unwrap();
    sim.begin();
    sim
}

/// The latency of one request that comes alone, at 1 ms.
fn alone(workloads: &[WorkloadSpec], stages: Vec<StageSpec>) -> Nanos {
    let once = Arrivals::Recorded(vec![micros(1_000), Nanos::from_secs(1_000)]);
    let mut sim = sim(8, free_kernel(), workloads, vec![request("r", once, stages)]);
    sim.run_until(Nanos::from_secs(1));
    assert_eq!(sim.stats()[0].latencies.count(), 1);
    sim.stats()[0].latencies.max()
}

/// Histograms keep three digits, and a woken thread takes a nanosecond to go on.
fn assert_is(what: &str, got: Nanos, wanted_micros: u64) {
    let off = got.0.abs_diff(wanted_micros * 1_000);
    assert!(off <= wanted_micros * 2, "{what}: {got} instead of {wanted_micros} µs");
}

/// Two exponential stages side by side, unloaded: the mean of the longer one is (1 + 1/2) means.
#[test]
fn fork_and_join_is_the_maximum() {
    let exponential = || vec![Step::Work(Service::Exponential(micros(1_000)))];
    let stages = vec![
        stage("first", "front", &[], vec![Step::Work(Service::Constant(Nanos(1)))]),
        stage("left", "back", &["first"], exponential()),
        stage("right", "back", &["first"], exponential()),
        stage("last", "front", &["left", "right"], vec![Step::Work(Service::Constant(Nanos(1)))]),
    ];
    let pools = [pool("front", 16), pool("back", 32)];
    let mut sim = sim(32, free_kernel(), &pools, vec![request("r", Arrivals::Poisson(500.0), stages)]);
    sim.run_until(Nanos::from_secs(200));
    let latencies = &sim.stats()[0].latencies;
    assert!(latencies.count() > 95_000);
    let mean = latencies.mean().as_secs_f64() * 1e3;
    assert!((mean / 1.5 - 1.0).abs() < 0.02, "{mean}");
    assert_eq!(sim.stats()[1].latencies.count(), 0, "the receiver alone counts it");
}

/// DASEC's Figure 4: the main thread gives its helper work, does its own, and waits for the helper.
#[test]
fn the_critical_path_runs_over_threads() {
    let app = |helper: u64| {
        vec![
            stage(
                "main",
                "app",
                &[],
                vec![
                    work(1_000),
                    Step::Signal("asked".into()),
                    work(2_000),
                    Step::Wait(vec!["helper".into()]),
                    work(1_000),
                ],
            ),
            stage("helper", "helpers", &["asked"], vec![work(helper)]),
        ]
    };
    let pools = [pool("app", 1), pool("helpers", 1)];
    assert_is("the helper is on the critical path", alone(&pools, app(5_000)), 7_000);
    assert_is("the main thread is", alone(&pools, app(500)), 4_000);
}

#[test]
fn a_barrier_lets_all_go_on_when_the_last_has_come() {
    let part = |name: &str, before: u64| {
        stage(name, "pool", &["first"], vec![work(before), Step::Barrier("half".into()), work(1_000)])
    };
    let stages =
        vec![stage("first", "front", &[], vec![work(100)]), part("a", 1_000), part("b", 4_000), part("c", 2_000)];
    let pools = [pool("front", 1), pool("pool", 3)];
    let once = Arrivals::Recorded(vec![micros(1_000), Nanos::from_secs(1_000)]);
    let limited = RequestSpec { at_most: Some(1), ..request("r", once, stages) };
    let mut sim = sim(8, free_kernel(), &pools, vec![limited]);
    sim.run_until(Nanos::from_secs(1));
    assert_is("the barrier", sim.stats()[0].latencies.max(), 5_100);
}

/// A limit on requests under way makes the others wait outside: with one at a time the pool is a single server.
#[test]
fn a_limit_keeps_requests_outside() {
    let stages = || vec![stage("only", "pool", &[], vec![work(1_000)])];
    let times = vec![micros(1_000), micros(1_100), micros(1_200), Nanos::from_secs(1_000)];
    let max = |at_most| {
        let spec = RequestSpec { at_most, ..request("r", Arrivals::Recorded(times.clone()), stages()) };
        let mut sim = sim(8, free_kernel(), &[pool("pool", 4)], vec![spec]);
        sim.run_until(Nanos::from_secs(1));
        assert_eq!(sim.stats()[0].latencies.count(), 3);
        sim.stats()[0].latencies.max()
    };
    assert_is("no limit", max(None), 1_000);
    assert_is("two", max(Some(2)), 1_800);
    assert_is("one", max(Some(1)), 2_800);
}

/// Sixteen clients whose requests hold one lock for 100 µs, three times with a microsecond between.
fn convoy(order: LockOrder, costs: Costs) -> f64 {
    let hold = || Step::Locked(Service::Constant(micros(100)), "index".into());
    let steps = vec![hold(), work(1), hold(), work(1), hold()];
    let clients = Some(Clients { number: 16, think: Service::Constant(Nanos(1)) });
    let spec = request("r", Arrivals::Poisson(1.0), vec![stage("only", "pool", &[], steps)]);
    let spec = RequestSpec { arrivals: None, clients, ..spec };
    let config = KernelConfig { costs, ..KernelConfig::default() };
    let mut sim = with_locks(16, config, &[pool("pool", 16)], vec![spec], vec![lock("index", order)]);
    sim.run_until(Nanos::from_millis(100));
    sim.end_warm_up();
    sim.run_until(Nanos::from_millis(10_100));
    sim.stats()[0].latencies.count() as f64 * 3.0 / 10.0
}

/// No more than one critical section at a time, and no less while somebody wants it. When waking costs something, a
/// lock that is handed to a sleeper stands still until the sleeper has a CPU; one that anybody may take does not.
#[test]
fn a_lock_bounds_the_throughput() {
    for order in [LockOrder::HandOff, LockOrder::Barging] {
        let free = convoy(order, Costs::FREE);
        assert!((9_900.0..=10_005.0).contains(&free), "{order:?}: {free}");
    }
    let costs = Costs { idle_exit: micros(30), ..Costs::FREE };
    let (handed, barged) = (convoy(LockOrder::HandOff, costs), convoy(LockOrder::Barging, costs));
    assert!((7_600.0..7_750.0).contains(&handed), "130 µs each: {handed}");
    assert!((8_900.0..9_100.0).contains(&barged), "302 µs and 30 µs for three: {barged}");
}

/// A latency-critical request needs a lock that a best-effort thread holds. When a third party takes the holder's CPU,
/// the latency-critical one, which has a CPU of its own, waits for as long.
#[test]
fn a_preempted_lock_holder_delays_who_waits_for_the_lock() {
    let p999 = |shares_lock: bool, is_disturbed: bool| {
        let on = |cpus: &str| Some(quell_sim::workload::CpuList(cpus.parse().unwrap()));
        let critical = WorkloadSpec { cpuset: on("0"), ..pool("critical", 4) };
        let background =
            WorkloadSpec { cpuset: on("1"), class: Class::BestEffort, idle: true, ..pool("background", 4) };
        let work = Service::Constant(micros(2_000));
        let periodic = PeriodicSpec {
            period: micros(4_000),
            work,
            offset: Nanos(0),
            stagger: Nanos(0),
            later: None,
            deadline: None,
        };
        let third =
            WorkloadSpec { cpuset: on("1"), periodic: Some(periodic), ..WorkloadSpec::new("third", Class::BestEffort) };
        let hold = |time: u64| Step::Locked(Service::Constant(micros(time)), "table".into());
        let steps = vec![if shares_lock { hold(15) } else { Step::Work(Service::Constant(micros(15))) }];
        let asks = request("asks", Arrivals::Poisson(1_000.0), vec![stage("ask", "critical", &[], steps)]);
        let cleans =
            request("cleans", Arrivals::Poisson(10.0), vec![stage("clean", "background", &[], vec![hold(500)])]);
        let mut workloads = vec![critical, background];
        workloads.extend(is_disturbed.then_some(third));
        let locks = vec![lock("table", LockOrder::Barging)];
        let mut sim = with_locks(2, KernelConfig::default(), &workloads, vec![asks, cleans], locks);
        sim.run_until(Nanos::from_secs(20));
        sim.stats()[0].latencies.quantile(0.999)
    };
    let (quiet, inverted, apart) = (p999(true, false), p999(true, true), p999(false, true));
    assert!(quiet < micros(600) && apart < micros(150), "{quiet} {apart}");
    assert!(inverted > micros(1_500), "{inverted}");
}

/// Threads that wake others are counted, each edge by itself; arrivals are no one's.
#[test]
fn wake_ups_know_who_woke_whom() {
    let stages = vec![
        stage(
            "main",
            "app",
            &[],
            vec![work(100), Step::Signal("asked".into()), Step::Wait(vec!["helper".into()]), work(10)],
        ),
        stage("helper", "helpers", &["asked"], vec![work(100)]),
    ];
    let times = (1..=50).map(Nanos::from_millis).chain([Nanos::from_secs(1_000)]).collect();
    let pools = [pool("app", 1), pool("helpers", 1), pool("others", 1)];
    let mut sim = sim(4, KernelConfig::default(), &pools, vec![request("r", Arrivals::Recorded(times), stages)]);
    sim.run_until(Nanos::from_secs(1));
    let (main, helper) = (TaskId(0), TaskId(1));
    assert_eq!(sim.kernel().wakers_of(helper), [(main, 50)]);
    assert_eq!(sim.kernel().wakers_of(main), [(helper, 50)]);
    assert_eq!(sim.kernel().wakers_of(TaskId(2)), []);
    assert_eq!(sim.kernel().counters().wake_ups, 150, "and 50 of arrivals");
}

/// A parallel job's completion time: this many rounds of the longest piece, and twice that on half of the CPUs.
#[test]
fn parallel_jobs_have_a_completion_time() {
    let mean = |cpus: u32| {
        let parallel = Some(ParallelSpec::new(10, Service::Constant(micros(1_000))));
        let spec = WorkloadSpec { threads: 4, parallel, ..WorkloadSpec::new("job", Class::BestEffort) };
        let mut sim = Sim::new(Topology::synthetic(1, 1, cpus, 1), free_kernel(), &[spec], 1).unwrap();
        sim.begin();
        sim.run_until(Nanos::from_secs(2));
        let edges: u64 = (0..4).flat_map(|task| sim.kernel().wakers_of(TaskId(task))).map(|&(_, count)| count).sum();
        let rounds = 10 * sim.stats()[0].latencies.count();
        assert!(edges >= 3 * rounds - 3 && edges <= 3 * (rounds + 10), "{edges} in {rounds} rounds");
        sim.stats()[0].latencies.mean()
    };
    assert_is("a CPU each", mean(4), 10_000);
    assert_is("two threads a CPU", mean(2), 20_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    /// Whatever locks, waits and limits there are, and however few threads: every request comes to its end.
    #[test]
    fn every_request_ends(
        threads in 1u32..4,
        cpus in 1u32..4,
        at_most in proptest::option::of(1u32..5),
        shapes in proptest::collection::vec((0usize..3, 0usize..4, 0u64..3), 1..7),
        orders in (proptest::bool::ANY, proptest::bool::ANY),
        full in proptest::bool::ANY,
    ) {
        let exponential = || Service::Exponential(micros(20));
        // Main waits for the last one; each of the others comes after the one before it, or after main's signal.
        let mut stages = vec![stage("main", "main", &[], vec![
            Step::Work(exponential()),
            Step::Signal("asked".into()),
            Step::Locked(exponential(), "one".into()),
        ])];
        let mut ends = Vec::new();
        for (number, (pool, kind, after)) in shapes.into_iter().enumerate() {
            let steps = match kind {
                0 => vec![Step::Work(exponential())],
                1 => vec![Step::Locked(exponential(), "one".into()), Step::Locked(exponential(), "two".into())],
                2 => vec![Step::Wait(vec!["main".into()]), Step::Locked(exponential(), "two".into())],
                _ => vec![Step::Signal(format!("s{number}")), Step::Work(exponential())],
            };
            let before = format!("stage{}", number.saturating_sub(1));
            let after = if after == 0 || number == 0 { "asked" } else { before.as_str() };
            stages.push(stage(&format!("stage{number}"), ["x", "y", "z"][pool], &[after], steps));
            ends.push(kind);
        }
        if !ends.contains(&2) {
            stages[0].steps.push(Step::Wait(vec![format!("stage{}", ends.len() - 1)]));
        }
        let stops = Arrivals::Steps(vec![
            quell_sim::workload::Step { at: Nanos(0), rate: 2_000.0 },
            quell_sim::workload::Step { at: Nanos::from_millis(50), rate: 0.0 },
        ]);
        let order = |handed| if handed { LockOrder::HandOff } else { LockOrder::Barging };
        let graphs = GraphSpec {
            requests: vec![RequestSpec { at_most, ..request("r", stops, stages) }],
            locks: vec![lock("one", order(orders.0)), lock("two", order(orders.1))],
        };
        let batch = Some(BatchSpec::default());
        let hog = WorkloadSpec { batch, ..WorkloadSpec::new("hog", Class::BestEffort) };
        let workloads = [pool("main", threads), pool("x", 1), pool("y", threads), pool("z", 2), hog];
        let preemption =
            if full { quell_model::PreemptionMode::Full } else { quell_model::PreemptionMode::Lazy };
        let config = KernelConfig { preemption, ..KernelConfig::default() };
        let mut sim = Sim::new(Topology::synthetic(1, 1, cpus, 1), config, Population { workloads: &workloads, vms: &[], requests: &graphs }, 11).unwrap();
        sim.begin();
        sim.run_until(Nanos::from_secs(20));
        let stats = &sim.stats()[0];
        prop_assert!(stats.arrived > 50);
        prop_assert_eq!(stats.latencies.count(), stats.arrived);
    }

    /// Any graph that is accepted comes to its end, whatever waits for what; only others are refused.
    #[test]
    fn what_is_accepted_ends(
        threads in (1u32..4, 1u32..4, 1u32..4),
        at_most in proptest::option::of(1u32..3),
        shapes in proptest::collection::vec((0usize..3, 0u32..16, proptest::collection::vec((0usize..5, 0usize..6), 1..4)), 1..6),
    ) {
        let count = shapes.len();
        let name = |stage: usize| format!("stage{stage}");
        let stages = shapes.iter().enumerate().map(|(number, (pool, after, steps))| {
            // Some of those before it; none only for the first.
            let mut after: Vec<String> = (0..number).filter(|stage| after >> stage & 1 == 1).map(name).collect();
            if after.is_empty() && number > 0 {
                after.push(name(0));
            }
            let exponential = || Service::Exponential(micros(20));
            let steps = steps.iter().map(|&(kind, other)| match kind {
                0 => Step::Locked(exponential(), "one".into()),
                1 => Step::Wait(vec![name(other % count)]),
                2 => Step::Barrier("half".into()),
                _ => Step::Work(exponential()),
            });
            StageSpec { name: name(number), on: ["x", "y", "z"][*pool].into(), after, profile: None, steps: steps.collect() }
        });
        let stops = Arrivals::Steps(vec![
            quell_sim::workload::Step { at: Nanos(0), rate: 2_000.0 },
            quell_sim::workload::Step { at: Nanos::from_millis(20), rate: 0.0 },
        ]);
        let spec = RequestSpec { at_most, ..request("r", stops, stages.collect()) };
        let graphs = GraphSpec { requests: vec![spec], locks: vec![lock("one", LockOrder::Barging)] };
        let pools = [pool("x", threads.0), pool("y", threads.1), pool("z", threads.2)];
        let topology = Topology::synthetic(1, 1, 2, 1);
        let made = Sim::new(topology, KernelConfig::default(), Population { workloads: &pools, vms: &[], requests: &graphs }, 11);
        prop_assume!(made.is_ok());
        let mut sim = made.unwrap();
        sim.begin();
        sim.run_until(Nanos::from_secs(5));
        let stats = sim.stats();
        let (arrived, ended) = stats.iter().fold((0, 0), |sum, one| (sum.0 + one.arrived, sum.1 + one.latencies.count()));
        prop_assert!(arrived > 10);
        prop_assert_eq!(arrived, ended, "{:?}", graphs);
    }
}
