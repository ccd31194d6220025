//! A thread that wakes up is put onto its CPU where that is chosen; what another CPU does before it is there.

use std::sync::atomic::Ordering::Relaxed;

use quell_scx::layout::{NO_CPU, NO_SLOT};

use crate::half::{Half, meanwhile};

const MS: u64 = 1_000_000;
/// What the machine's clock says in the beginning.
const START: u64 = 1_000 * MS;

#[test]
fn who_was_sent_before_a_real_time_thread_took_the_cpu_is_fetched() {
    for ran in [true, false] {
        let half = Half::with_cpus(1);
        half.workload(0, true);
        half.thread(0, 0, 0b1);
        assert_eq!(half.sends(0), 0);
        if ran {
            half.runs(0);
        }
        half.has_real_time(0, false);
        meanwhile::releases(0);
        half.sets_clock(START + 5 * MS);
        half.patrols();
        assert_eq!((half.fetches(), half.cpu(0).fetch.load(Relaxed)), if ran { (0, 0) } else { (1, 1) });
    }
}

#[test]
fn a_cpu_that_was_yielded_before_the_thread_came_is_its_workloads_when_it_runs() {
    let half = Half::with_cpus(1);
    let server = half.workload(0, true);
    half.thread(0, 0, 0b1);
    assert_eq!(half.sends(0), 0);
    assert_eq!(server.held.load(Relaxed), 1);
    assert_eq!(half.dispatches(0), None);
    assert_eq!(half.cpu(0).holder.load(Relaxed), NO_SLOT, "the CPU decided before the thread came");
    half.runs(0);
    assert_eq!((half.cpu(0).holder.load(Relaxed), server.held.load(Relaxed)), (0, 1));
}

#[test]
fn a_best_effort_thread_is_sent_to_an_idle_cpu_alone() {
    let half = Half::with_cpus(1);
    half.workload(0, false);
    half.thread(0, 0, 0b1);
    assert_eq!(half.sends(0), NO_CPU, "a thread may run there by now");
    half.idles(0);
    assert_eq!(half.sends(0), 0);
    assert_eq!(half.cpu(0).holder.load(Relaxed), 0);
}

#[test]
fn who_would_preempt_a_thread_that_has_a_grace_comes_first() {
    let half = Half::with_cpus(1);
    half.workload(0, true);
    let batch = half.workload(1, false);
    half.thread(0, 0, 0b1);
    half.thread(1, 1, 0b1);
    half.shared().hand_on(0, NO_SLOT, 1);
    half.runs(1);
    batch.grace_ns.store(20_000, Relaxed);
    assert_eq!(half.sends(0), NO_CPU);
    batch.grace_ns.store(0, Relaxed);
    assert_eq!(half.sends(0), 0);
}
