//! Scenes of one workload on this machine's own threads.

use std::sync::{Mutex, PoisonError};

use quell_model::{Class, Nanos};
use quell_play::{Course, Pace, Part, Played, play};
use quell_sim::WorkloadSpec;
use quell_sim::workload::graph::{Clients, GraphSpec, LockOrder, LockSpec, RequestSpec, StageSpec, Step};
use quell_sim::workload::{
    Arrivals, BatchSpec, ClosedSpec, Dispatch, ForksSpec, JobSource, JobsSpec, Order, ParallelSpec, PeriodicSpec,
    ServerSpec, Service,
};
use quell_thread::clock;

const MS: u64 = 1_000_000;

/// The time of all of a process' threads is read: the tests of this one are played one by one.
static ALONE: Mutex<()> = Mutex::new(());

/// Plays it for 400 ms, of which the last 300 count.
fn played(spec: WorkloadSpec) -> Played {
    played_with(spec, GraphSpec::NONE)
}

fn played_with(spec: WorkloadSpec, graph: GraphSpec) -> Played {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = clock::now() + Nanos(50 * MS);
    let course = Course { begin, from: begin + Nanos(100 * MS), end: begin + Nanos(400 * MS) };
    play(&Part { spec, graph, place: 0, seed: 1 }, course, Pace::measured()).unwrap()
}

fn lc(name: &str) -> WorkloadSpec {
    WorkloadSpec::new(name, Class::LatencyCritical)
}

fn constant(micros: u64) -> Service {
    Service::Constant(Nanos::from_micros(micros))
}

#[test]
fn a_server_answers_what_arrives_in_no_less_than_its_work() {
    for dispatch in [Dispatch::Pool, Dispatch::PerThread] {
        let server = ServerSpec { arrivals: Arrivals::Uniform(200.0), service: constant(500), dispatch };
        let played = played(WorkloadSpec { threads: 2, server: Some(server), ..lc("server") });
        // Every 5 ms for 300 ms; a busy machine may leave some, and what no thread has drawn is not counted.
        assert!((1..=61).contains(&(played.done + played.left)), "{played:?}");
        assert!(played.done > 0 && played.histogram().quantile(0.0) > 300_000, "{played:?}");
        // Not every kernel says how often threads are switched. Where it does they slept before most requests.
        assert!(played.counted.is_none_or(|counted| counted.sleeps > 0), "{played:?}");
    }
}

#[test]
fn clients_wait_for_their_answers() {
    for (dispatch, pace) in [(Dispatch::Pool, None), (Dispatch::PerThread, Some(200.0))] {
        let closed = ClosedSpec { clients: 4, think: constant(5_000), service: constant(500), pace, dispatch };
        let played = played(WorkloadSpec { threads: 2, closed: Some(closed), ..lc("server") });
        // Four clients, each no more than every 5.5 ms for 300 ms; with a timetable 200 a second, and on a busy machine those of
        // the first 100 ms are late and count.
        let most = if pace.is_some() { 84 } else { 220 };
        assert!((1..=most).contains(&(played.done + played.left)), "{played:?}");
        assert!(played.left <= 4 && played.histogram().quantile(0.0) > 300_000, "{played:?}");
    }
}

/// Taken in by one of two threads, done in two pieces by others, one of them under a lock, answered by either of the two.
#[test]
fn requests_pass_through_the_roles_of_a_workload() {
    let stage = |name: &str, on: &str, after: &[&str], step: Step| {
        let after = after.iter().map(|&name| name.to_owned()).collect();
        StageSpec { name: name.into(), on: on.into(), after, profile: None, steps: vec![step] }
    };
    let work = Step::Work(constant(300));
    let locked = Step::Locked(constant(300), "table".into());
    let stages = vec![
        stage("take", "shop.main", &[], work.clone()),
        stage("one", "shop.worker", &["take"], work.clone()),
        stage("two", "shop.worker", &["take"], locked),
        stage("answer", "shop.main", &["one", "two"], work),
    ];
    for (arrivals, clients) in
        [(Some(Arrivals::Uniform(200.0)), None), (None, Some(Clients { number: 3, think: constant(5_000) }))]
    {
        let most = if arrivals.is_some() { 61 } else { 160 };
        let (name, copies, at_most, stages) = ("query".into(), 1, None, stages.clone());
        let requests = vec![RequestSpec { name, copies, arrivals, clients, at_most, stages }];
        let locks = vec![LockSpec { name: "table".into(), copies: 1, order: LockOrder::Barging }];
        let pool = [("main".to_owned(), 2), ("worker".to_owned(), 2)].into();
        let spec = WorkloadSpec { threads: 4, pool: Some(pool), ..lc("shop") };
        let played = played_with(spec, GraphSpec { requests, locks });
        assert!((1..=most).contains(&(played.done + played.left)), "{played:?}");
        // Three stages follow each other.
        assert!(played.done > 0 && played.histogram().quantile(0.0) > 540_000, "{played:?}");
    }
}

#[test]
fn threads_meet_at_barriers_and_no_round_is_shorter_than_its_parts() {
    for (spin, serial) in [(0, None), (100, Some(constant(1_000)))] {
        let spin = Nanos::from_micros(spin);
        let parallel = ParallelSpec { serial, spin, ..ParallelSpec::new(5, constant(500)) };
        let least = 5 * if parallel.serial.is_some() { 1_500_000 } else { 500_000 };
        let played = played(WorkloadSpec { threads: 3, parallel: Some(parallel), ..lc("rounds") });
        assert!(played.done > 0 && played.left == 0, "{played:?}");
        // The work's pace is measured: half of the time is far enough.
        assert!(played.histogram().quantile(0.0) > least / 2, "{played:?}");
    }
}

#[test]
fn tasks_are_released_by_their_period_and_jobs_by_their_sources() {
    let period = Nanos(10 * MS);
    let periodic = PeriodicSpec {
        period,
        work: constant(300),
        offset: Nanos(MS),
        stagger: Nanos::ZERO,
        later: None,
        deadline: None,
    };
    let tasks = played(WorkloadSpec { threads: 2, periodic: Some(periodic), ..lc("tasks") });
    assert!(tasks.done > 0 && tasks.done + tasks.left <= 61, "two tasks, 100 a second: {tasks:?}");
    let source = |work, period| JobSource { offset: Nanos::ZERO, work: constant(work), period, later: None };
    let jobs = JobsSpec { order: Order::Rm, source: vec![source(200, Nanos(5 * MS)), source(2_000, Nanos(20 * MS))] };
    let jobs = played(WorkloadSpec { jobs: Some(jobs), ..lc("jobs") });
    assert!(jobs.done > 0 && jobs.done + jobs.left <= 76, "60 of one source and 15 of the other: {jobs:?}");
}

/// What had the CPUs has ended when that is read.
#[test]
fn short_lived_threads_are_started_and_what_they_had_is_counted() {
    for (every, most) in [(Some(Nanos(5 * MS)), 2), (None, 1)] {
        let forks = ForksSpec { every, work: constant(500), most };
        let played = played(WorkloadSpec { threads: 2, forks: Some(forks), ..lc("shell") });
        let bound = if every.is_some() { 122 } else { 1_300 };
        assert!(played.done > 0 && played.done + played.left <= bound, "{played:?}");
        assert!(played.histogram().quantile(0.0) > 300_000, "{played:?}");
        // The work's pace is measured: half of the time is far enough.
        assert!(played.ran.0 > played.done * 250_000, "{played:?}");
        assert!(played.counted.is_none_or(|counted| counted.sleeps > 0), "{played:?}");
    }
}

#[test]
fn work_without_end_runs_or_waits_all_the_time() {
    let batch = WorkloadSpec { batch: Some(BatchSpec::default()), ..WorkloadSpec::new("batch", Class::BestEffort) };
    let played = played(batch);
    let busy = (played.ran + played.waited).0 as f64 / played.measured.0 as f64;
    // A wait that has not ended counts nowhere: on a busy machine that is most of the time.
    assert!((0.1..1.5).contains(&busy), "{played:?}");
    assert_eq!((played.done, played.latencies.len()), (0, 0));
}

#[test]
fn a_class_that_the_kernel_refuses_is_an_error_at_once() {
    let (runtime, deadline) = (Nanos::from_millis(2), Nanos::from_millis(1));
    let scheduling = quell_model::SchedClass::Deadline { runtime, deadline, period: deadline };
    let spec = WorkloadSpec { scheduling, ..lc("odd") };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = clock::now();
    let course = Course { begin, from: begin, end: begin + Nanos::from_secs(600) };
    let error = play(&Part { spec, graph: GraphSpec::NONE, place: 0, seed: 1 }, course, Pace::measured())
        .unwrap_err()
        .to_string();
    assert!(error.contains("'odd'") && error.contains("class"), "{error}");
}
