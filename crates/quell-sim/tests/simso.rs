//! Schedules of random task sets against SimSo's, stretch by stretch.

use quell_sim::experiment::task_sets::{Scheduling, TaskSet};

fn assert_equal(scheduling: Scheduling) {
    let sets = TaskSet::all();
    assert_eq!(sets.len(), 100);
    let mut differ = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        let (ours, missed) = set.simulate(scheduling).unwrap();
        let simso = set.simso(scheduling);
        let place = ours.iter().zip(simso).position(|(ours, simso)| ours != simso);
        if ours != simso {
            eprintln!("set {number} missed {missed} {:?}: at {place:?} {:?} vs {:?}", set.tasks, &ours[place.unwrap_or(0)..][..3], &simso[place.unwrap_or(0)..][..3]);
            differ.push(number);
        }
    }
    assert!(differ.is_empty(), "sets {differ:?} differ from SimSo's");
}

#[test]
fn fixed_priorities() {
    assert_equal(Scheduling::RateMonotonic);
}

#[test]
fn earliest_deadline_first() {
    assert_equal(Scheduling::EarliestDeadline);
}
