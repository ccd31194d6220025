//! Decisions are counted, each once.

use crate::half::{Half, WAKES};

#[test]
fn a_cpu_that_a_wake_up_takes_and_one_that_it_does_not_get() {
    let half = Half::with_cpus(1);
    half.workload(0, true);
    half.workload(1, false);
    for (number, slot) in [(0, 0), (1, 0), (2, 1)] {
        half.thread(number, slot, 0b11);
    }
    half.enqueues(2, WAKES);
    assert_eq!(half.dispatches(0), Some(2));
    half.runs(2);
    assert_eq!((half.counted("preempted"), half.counted("refused")), (0, 0), "no workload had it");
    half.enqueues(0, WAKES);
    assert_eq!((half.counted("preempted"), half.counted("refused")), (1, 0));
    half.enqueues(1, WAKES);
    assert_eq!((half.counted("preempted"), half.counted("refused")), (1, 1), "it is the only CPU");
}

#[test]
fn a_group_is_throttled_once_until_its_period_ends() {
    let half = Half::with_cpus(1);
    half.begins_groups();
    assert!(half.makes_group(2, 1, false));
    half.limits_group(2, 20_000_000);
    assert!(half.throttles_group(2, 20_000_000, 2) && half.throttles_group(2, 1_000_000, 2));
    assert_eq!(half.counted("throttled"), 1);
}
