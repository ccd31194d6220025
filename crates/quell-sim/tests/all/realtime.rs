//! Real-time and deadline threads against the theory of their schedulers.

use proptest::prelude::*;
use quell_model::{Class, Nanos, SchedClass, Topology};
use quell_sim::workload::{BatchSpec, PeriodicSpec, Service, WorkloadStats};
use quell_sim::{KernelConfig, RealTimeLimit, Sim, WorkloadSpec};

/// Times of the random task sets are multiples of this.
const UNIT: u64 = 10_000;

fn run(workloads: &[WorkloadSpec], span: Nanos, limit: RealTimeLimit) -> Vec<WorkloadStats> {
    let config = KernelConfig { real_time_limit: limit, ..KernelConfig::plain() };
    let mut sim = Sim::new(Topology::synthetic(1, 1, 1, 1), config, workloads, 1).unwrap();
    sim.begin();
    sim.run_until(span);
    sim.stats()
}

fn periodic(number: usize, work: u64, period: u64, scheduling: SchedClass) -> WorkloadSpec {
    WorkloadSpec {
        scheduling,
        periodic: Some(PeriodicSpec {
            period: Nanos(period * UNIT),
            work: Service::Constant(Nanos(work * UNIT)),
            offset: Nanos::ZERO,
            stagger: Nanos::ZERO,
            later: None,
            deadline: None,
        }),
        ..WorkloadSpec::new(format!("task{number}"), Class::LatencyCritical)
    }
}

fn hog(scheduling: SchedClass) -> WorkloadSpec {
    WorkloadSpec { scheduling, batch: Some(BatchSpec::default()), ..WorkloadSpec::new("hog", Class::BestEffort) }
}

/// The smallest fixed point of R = C + Σ ⌈R / Tⱼ⌉ Cⱼ over the tasks of higher priority (Joseph and Pandya 1986).
fn response_time(tasks: &[(u64, u64)], which: usize) -> u64 {
    let (work, period) = tasks[which];
    let mut response = work;
    loop {
        let next = work + tasks[..which].iter().map(|&(work, period)| response.div_ceil(period) * work).sum::<u64>();
        if next == response || next > period {
            return next;
        }
        response = next;
    }
}

fn task_sets() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((1u64..30, 20u64..200), 1..6).prop_map(|mut tasks| {
        tasks.iter_mut().for_each(|(work, period)| *work = (*work).min(*period));
        tasks.sort_by_key(|&(_, period)| period);
        tasks.dedup_by_key(|&mut (_, period)| period);
        tasks
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Rate-monotonic priorities under SCHED_FIFO, all released at once: the first response is the worst one, and it is
    /// what response-time analysis says.
    #[test]
    fn worst_responses_under_fixed_priorities_are_those_of_the_analysis(tasks in task_sets()) {
        let fifo = |place: usize| SchedClass::Fifo { priority: 90 - place as u8 };
        let specs: Vec<WorkloadSpec> =
            tasks.iter().enumerate().map(|(at, &(work, period))| periodic(at, work, period, fifo(at))).collect();
        let stats = run(&specs, Nanos(20_000 * UNIT), RealTimeLimit::None);
        for (at, &(_, period)) in tasks.iter().enumerate() {
            let response = response_time(&tasks, at);
            if response > period {
                break;
            }
            let worst = stats[at].latencies.max().0 as f64 / (response * UNIT) as f64;
            prop_assert!((worst - 1.0).abs() < 0.001, "task {at} of {tasks:?}: {worst} of {response}");
            prop_assert_eq!(stats[at].missed, 0);
        }
    }

    /// Sporadic tasks ask for no more than periodic ones: their responses stay within the analysis's.
    #[test]
    fn sporadic_tasks_stay_within_the_analysis(tasks in task_sets(), mean in 1u64..30) {
        let fifo = |place: usize| SchedClass::Fifo { priority: 90 - place as u8 };
        let sporadic = |at: usize, &(work, period): &(u64, u64)| {
            let mut spec = periodic(at, work, period, fifo(at));
            if let Some(tasks) = &mut spec.periodic {
                tasks.later = Some(Service::Exponential(Nanos(mean * UNIT)));
            }
            spec
        };
        let specs: Vec<WorkloadSpec> = tasks.iter().enumerate().map(|(at, task)| sporadic(at, task)).collect();
        let stats = run(&specs, Nanos(20_000 * UNIT), RealTimeLimit::None);
        for (at, &(_, period)) in tasks.iter().enumerate() {
            let response = response_time(&tasks, at);
            if response > period {
                break;
            }
            prop_assert!(stats[at].latencies.max().0 as f64 <= (response * UNIT) as f64 * 1.001, "task {at} of {tasks:?}");
            // On average a release each period and mean later.
            let expected = 20_000.0 / (period + mean) as f64;
            let count = stats[at].latencies.count() as f64;
            prop_assert!((count - expected) * (count - expected) < 36.0 * expected + 40.0, "{count} of {expected}");
        }
    }

    /// Earliest deadline first meets every deadline of a set that needs no more than the CPU (Liu and Layland 1973).
    #[test]
    fn earliest_deadline_first_meets_every_deadline_up_to_full_load(tasks in task_sets()) {
        let load: f64 = tasks.iter().map(|&(work, period)| work as f64 / period as f64).sum();
        let class = |work: u64, period: u64| SchedClass::Deadline {
            runtime: Nanos(work * UNIT),
            deadline: Nanos(period * UNIT),
            period: Nanos(period * UNIT),
        };
        let specs: Vec<WorkloadSpec> = tasks
            .iter()
            .enumerate()
            .map(|(at, &(work, period))| periodic(at, work, period, class(work, period)))
            .collect();
        let stats = run(&specs, Nanos(20_000 * UNIT), RealTimeLimit::None);
        let missed: u64 = stats.iter().map(|stats| stats.missed).sum();
        if load <= 1.0 {
            prop_assert_eq!(missed, 0, "load {}, {:?}", load, tasks);
        } else if load > 1.05 {
            prop_assert!(missed > 0, "load {}, {:?}", load, tasks);
        }
    }
}

#[test]
fn a_deadline_thread_has_its_bandwidth_and_no_more() {
    let class =
        SchedClass::Deadline { runtime: Nanos(3_000_000), deadline: Nanos(10_000_000), period: Nanos(10_000_000) };
    let greedy = WorkloadSpec { name: "greedy".into(), ..hog(class) };
    let stats = run(&[greedy, hog(SchedClass::NORMAL)], Nanos::from_secs(10), RealTimeLimit::None);
    assert!((stats[0].run_time as f64 / 3e9 - 1.0).abs() < 0.01, "{}", stats[0].run_time);
    assert!((stats[1].run_time as f64 / 7e9 - 1.0).abs() < 0.01, "{}", stats[1].run_time);
    // The budget's end is noticed at the tick; the next budget pays.
    let first = run(&[hog(class)], Nanos::from_millis(9), RealTimeLimit::None);
    assert_eq!(first[0].run_time, 4_000_000);
}

#[test]
fn the_fair_server_keeps_5_percent_for_ordinary_threads() {
    let runaway = WorkloadSpec { name: "runaway".into(), ..hog(SchedClass::Fifo { priority: 1 }) };
    let workloads = [runaway, hog(SchedClass::NORMAL)];
    let got = |limit| run(&workloads, Nanos::from_secs(20), limit)[1].run_time as f64 / 20e9;
    let served = got(RealTimeLimit::FairServer);
    assert!((0.04..0.06).contains(&served), "{served}");
    assert_eq!(got(RealTimeLimit::None), 0.0);
}

#[test]
fn throttling_keeps_5_percent_of_each_cpu_from_real_time_threads() {
    let runaway = WorkloadSpec { name: "runaway".into(), ..hog(SchedClass::Fifo { priority: 1 }) };
    let throttled = |workloads: &[WorkloadSpec]| {
        let stats = run(workloads, Nanos::from_secs(20), RealTimeLimit::Throttling);
        stats.iter().map(|stats| stats.run_time as f64 / 20e9).collect::<Vec<f64>>()
    };
    let [real_time, ordinary] = throttled(&[runaway.clone(), hog(SchedClass::NORMAL)])[..] else { panic!() };
    assert!((real_time - 0.95).abs() < 0.002 && (ordinary - 0.05).abs() < 0.002, "{real_time} {ordinary}");
    // No one else wants the rest, and the CPU idles all the same.
    let alone = throttled(std::slice::from_ref(&runaway))[0];
    assert!((alone - 0.95).abs() < 0.002, "{alone}");
    // A real-time thread that needs less is never throttled.
    let modest = periodic(0, 900, 1_000, SchedClass::Fifo { priority: 1 });
    let stats = run(&[modest, hog(SchedClass::NORMAL)], Nanos::from_secs(20), RealTimeLimit::Throttling);
    assert_eq!(stats[0].missed, 0);
    // Deadline threads are bounded by their budgets alone.
    let class =
        SchedClass::Deadline { runtime: Nanos(98_000_000), deadline: Nanos(100_000_000), period: Nanos(100_000_000) };
    assert!((throttled(&[hog(class)])[0] - 0.98).abs() < 0.002);
}

#[test]
fn round_robin_takes_turns_and_fifo_does_not() {
    let two = |class| {
        let workloads = [WorkloadSpec { name: "first".into(), ..hog(class) }, hog(class)];
        let stats = run(&workloads, Nanos::from_secs(4), RealTimeLimit::None);
        [stats[0].run_time as f64 / 4e9, stats[1].run_time as f64 / 4e9]
    };
    assert_eq!(two(SchedClass::Fifo { priority: 3 }), [1.0, 0.0]);
    let [first, second] = two(SchedClass::RoundRobin { priority: 3 });
    assert!((first - 0.5).abs() < 0.03 && (second - 0.5).abs() < 0.03, "{first} {second}");
}
