//! The loader is notified of queues that form.

use std::sync::atomic::Ordering::Relaxed;

use quell_scx::layout::{CALM, NEWS, NO_SLOT};

use crate::half::{Half, WAKES};

/// Another workload has the CPU when a thread of one of this class comes, with a place in the line or without: is the loader
/// notified, if it listens so?
fn is_notified(lc: bool, in_line: bool, listening: u32) -> bool {
    let half = Half::with_cpus(1);
    half.workload(0, true);
    let state = half.workload(1, lc);
    state.guaranteed.store(0, Relaxed);
    state.in_line.store(in_line.into(), Relaxed);
    half.thread(0, 0, 0b1);
    half.thread(1, 1, 0b1);
    half.shared().hand_on(0, NO_SLOT, 0);
    half.runs(0);
    half.shared().listening.store(listening, Relaxed);
    half.notified();
    half.enqueues(1, WAKES);
    half.notified() > 0
}

#[test]
fn a_calm_loader_is_not_notified_of_queues_of_best_effort_work_in_line() {
    let notified = |lc, in_line| [0, NEWS, NEWS | CALM].map(|listening| is_notified(lc, in_line, listening));
    assert_eq!(notified(false, true), [false, true, false]);
    assert_eq!(notified(false, false), [false, true, true]);
    assert_eq!(notified(true, true), [false, true, true]);
}
