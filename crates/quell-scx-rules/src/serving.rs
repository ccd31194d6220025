//! Servers, step by step: the whole kernel half on a kernel of this crate's own.

use std::sync::atomic::Ordering::Relaxed;

use quell_model::Nanos;

use crate::half::{Half, WAKES};

const SERVED: u32 = 0;
const BATCH: u32 = 1;
const BEGIN: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// One CPU with a server of 3 ms in 10 ms, and a best-effort workload that holds the CPU. Two threads of the service, 0 and 1,
/// and one of the work, 2.
fn machine() -> Half {
    let half = Half::with_cpus(1);
    let served = half.workload(SERVED, true);
    [&served.on_wake_up, &served.in_line, &served.guaranteed].iter().for_each(|right| right.store(0, Relaxed));
    half.workload(BATCH, false);
    half.serves(0, SERVED, Nanos(3 * MS), Nanos(10 * MS), Nanos(BEGIN));
    for (number, slot) in [(0, SERVED), (1, SERVED), (2, BATCH)] {
        half.thread(number, slot, 0b11);
    }
    half
}

fn comes(half: &Half, number: u32) {
    half.enqueues(number, WAKES);
}

#[test]
fn with_budget_it_comes_before_the_holder_and_leaves_the_cpu_to_it() {
    let half = machine();
    comes(&half, 2);
    assert_eq!(half.dispatches(0), Some(2));
    half.runs(2);
    half.sets_clock(BEGIN + MS);
    comes(&half, 0);
    assert_eq!(half.waits_for_server(0), 0, "it is where it runs next");
    half.stops(2, true);
    half.runs(0);
    assert_eq!(half.rings_at(0), BEGIN + 4 * MS, "the end of its budget");
    half.sets_clock(BEGIN + 2 * MS);
    half.stops(0, false);
    assert_eq!(half.dispatches(0), Some(2), "the holder's thread");
}

#[test]
fn without_budget_it_waits_for_the_next_period() {
    let half = machine();
    comes(&half, 0);
    half.runs(0);
    half.sets_clock(BEGIN + 3 * MS + 1000);
    half.stops(0, true);
    assert_eq!(half.waits_for_server(0), 1);
    half.idles(0);
    assert_eq!(half.rings_at(0), BEGIN + 10 * MS);
    let server = &half.shared().serving[0].server[0];
    let exhausted = || server.exhausted.load(Relaxed);
    assert_eq!((exhausted(), server.overrun.load(Relaxed)), (1, 1000));
    half.sets_clock(BEGIN + 9 * MS);
    assert_eq!(half.dispatches(0), None);
    assert_eq!(exhausted(), 1, "once a period");
    half.sets_clock(BEGIN + 10 * MS);
    assert_eq!(half.dispatches(0), Some(0));
    half.runs(0);
    assert_eq!(half.rings_at(0), BEGIN + 13 * MS, "a full budget, the overrun is not carried over");
}

#[test]
fn threads_run_in_the_order_of_their_wake_ups() {
    let half = machine();
    comes(&half, 0);
    half.sets_clock(BEGIN + 1000);
    comes(&half, 1);
    assert_eq!(half.waits_for_server(0), 1, "the first one has not begun to run, and comes first");
    half.runs(0);
    // Its budget ends; it keeps its place before the other one.
    half.sets_clock(BEGIN + 3 * MS + 1000);
    half.stops(0, true);
    half.idles(0);
    half.sets_clock(BEGIN + 10 * MS);
    assert_eq!(half.dispatches(0), Some(0));
    half.runs(0);
    half.sets_clock(BEGIN + 11 * MS);
    half.stops(0, false);
    assert_eq!(half.dispatches(0), Some(1));
    assert!(!half.is_mixed());
}

#[test]
fn a_cpu_of_which_a_server_has_hold_is_not_taken_at_a_wake_up() {
    let half = machine();
    half.workload(2, true);
    let other = half.thread(3, 2, 3);
    comes(&half, 0);
    half.runs(0);
    assert_eq!(half.chooses(other), u32::MAX);
    half.stops(0, false);
    assert_eq!(half.chooses(other), 0);
}
