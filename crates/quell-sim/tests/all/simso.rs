//! Schedules of random task sets against SimSo's, stretch by stretch, and what is traced on the way.

use quell_model::{CpuId, Nanos};
use quell_sim::experiment::task_sets::{Scheduling, TaskSet};

fn assert_equal(scheduling: Scheduling) {
    let sets = TaskSet::all();
    assert_eq!(sets.len(), 100);
    for (number, set) in sets.iter().enumerate() {
        let (ours, _) = set.simulate(scheduling).unwrap();
        let simso = set.simso(scheduling);
        let place = ours.iter().zip(simso).position(|(ours, simso)| ours != simso);
        assert_eq!(place, None, "set {number} has another schedule from there on: {:?}", set.tasks);
        assert_eq!(ours.len(), simso.len(), "set {number}");
    }
}

#[test]
fn rate_monotonic_schedules_are_simsos() {
    assert_equal(Scheduling::RateMonotonic);
}

#[test]
fn earliest_deadline_schedules_are_simsos() {
    assert_equal(Scheduling::EarliestDeadline);
}

/// Sets in which nothing could go wrong would prove little.
#[test]
fn the_sets_have_equal_periods_offsets_and_late_jobs() {
    let sets = TaskSet::all();
    let count = |what: &dyn Fn(&TaskSet) -> bool| sets.iter().filter(|set| what(set)).count();
    let has_equal_periods = |set: &TaskSet| {
        let mut periods: Vec<u64> = set.tasks.iter().map(|task| task.period).collect();
        periods.sort_unstable();
        periods.windows(2).any(|pair| pair[0] == pair[1])
    };
    let is_late = |scheduling: Scheduling| move |set: &TaskSet| set.simulate(scheduling).unwrap().1 > 0;
    assert!(count(&has_equal_periods) > 30);
    assert!(count(&|set| set.tasks.iter().any(|task| task.offset > 0)) > 30);
    assert!(count(&is_late(Scheduling::RateMonotonic)) > 0);
    assert_eq!(count(&is_late(Scheduling::EarliestDeadline)), 0);
}

#[test]
fn a_trace_has_what_the_threads_ran_and_goes_on_after_a_look() {
    let set = &TaskSet::all()[0];
    let mut sim = set.sim(Scheduling::RateMonotonic).unwrap();
    let mut all = Vec::new();
    for step in 1..=50 {
        sim.run_until(Nanos::from_micros(1_003 * step));
        all.extend(sim.take_trace());
    }
    for (at, stats) in sim.stats().iter().enumerate() {
        let ran =
            all.iter().filter(|stretch| stretch.task.0 as usize == at).map(|stretch| (stretch.to - stretch.from).0);
        assert_eq!(ran.sum::<u64>(), stats.run_time, "task {at}");
    }
    assert!(all.iter().all(|stretch| stretch.cpu == CpuId(0)) && all.is_sorted_by(|a, b| a.to <= b.from));
}

/// The one difference from SimSo: task 3 is late, and its next job was released while it ran. SimSo queues that job
/// behind those of tasks 0 and 1, which have the same period; Linux does not take the CPU from a thread that goes on.
#[test]
fn a_late_thread_goes_on_before_others_of_its_priority() {
    let set = TaskSet::late();
    let (ours, missed) = set.simulate(Scheduling::RateMonotonic).unwrap();
    let simso = set.simso(Scheduling::RateMonotonic);
    assert!(missed > 0);
    let place = ours.iter().zip(simso).position(|(ours, simso)| ours != simso).unwrap();
    let (late, rest) = simso[place];
    assert_eq!((late, &simso[place + 1..place + 3]), (Some(3), &[(Some(0), 390), (Some(1), 2_767)][..]));
    assert!(ours[place].0 == late && ours[place].1 > rest, "{:?}", ours[place]);
    let (ours, _) = set.simulate(Scheduling::EarliestDeadline).unwrap();
    assert_eq!(ours, set.simso(Scheduling::EarliestDeadline));
}
