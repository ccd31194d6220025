//! The kernel's threads of one CPU: their budget, and when they go first.

use quell_scx::layout::{MAX_SLOTS, NO_SLOT};

use crate::half::{Half, WAKES};

const SYSTEM: u32 = MAX_SLOTS as u32;

/// Best-effort work has CPU 0, and a latency-critical thread, number 0, is sent there. Number 2 is one of the kernel's.
fn server_is_sent() -> Half {
    let half = Half::with_cpus(1);
    half.workload(0, true);
    half.workload(1, false);
    for (number, slot) in [(0, 0), (1, 1), (2, SYSTEM)] {
        half.thread(number, slot, 0b1);
    }
    half.is_of_kernel(2);
    half.shared().hand_on(0, NO_SLOT, 1);
    half.runs(1);
    assert_eq!(half.sends(0), 0);
    half
}

#[test]
fn a_latency_critical_thread_that_was_sent_goes_before_the_kernels_for_a_millisecond() {
    let half = server_is_sent();
    half.enqueues(2, WAKES);
    assert_eq!(half.first_on(0), Some(0));
    half.runs(0);
    assert_eq!((half.slice(0), half.first_on(0)), (1_000_000, Some(2)));
    half.stops(0, false);
    half.runs(2);
    half.stops(2, false);
    half.enqueues(0, WAKES);
    half.runs(0);
    assert!(half.slice(0) > 1_000_000, "nothing is behind it any more");
}

#[test]
fn one_that_runs_gives_way_to_the_kernels() {
    let half = server_is_sent();
    half.runs(0);
    half.enqueues(2, WAKES);
    assert_eq!(half.first_on(0), Some(2));
    assert!(half.slice(0) > 1_000_000);
}

#[test]
fn none_of_the_kernels_is_preempted_by_another() {
    let half = server_is_sent();
    for number in [3, 4] {
        half.thread(number, SYSTEM, 0b1);
        half.is_of_kernel(number);
    }
    half.runs(0);
    half.enqueues(2, WAKES);
    half.runs(2);
    half.enqueues(3, WAKES);
    half.enqueues(4, WAKES);
    assert_eq!(half.first_on(0), Some(3), "each behind the one before");
}

#[test]
fn the_kernels_threads_of_a_cpu_have_ten_milliseconds_in_fifty() {
    const MS: u64 = 1_000_000;
    let half = Half::with_cpus(2);
    let now = 1000 * MS;
    assert_eq!(half.uses_upkeep(0, 0, now), 10 * MS);
    assert_eq!(half.uses_upkeep(0, 4 * MS, now + 10 * MS), 6 * MS);
    assert_eq!(half.uses_upkeep(0, 6 * MS, now + 20 * MS), 0);
    assert_eq!(half.uses_upkeep(1, 0, now + 20 * MS), 10 * MS, "each CPU has its own");
    assert_eq!(half.uses_upkeep(0, 0, now + 49 * MS), 0);
    assert_eq!(half.uses_upkeep(0, 0, now + 50 * MS), 10 * MS);
}
