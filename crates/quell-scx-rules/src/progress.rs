//! Workloads that hold CPUs as one by progress: the choice against its reference function, and what services get of a CPU on
//! the simulated kernel.

use std::ffi::{CStr, c_char};
use std::mem::transmute;

use proptest::prelude::*;
use quell_model::Nanos;
use quell_model::rule::{Bounds, Waiting, next_by_progress};

use crate::simulation::Library;

/// `struct coming`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Coming {
    since: u64,
    used: u64,
    blocked: u64,
}

/// `struct bounds`.
#[repr(C)]
struct BoundsInC {
    now: u64,
    least: u64,
    lead: u64,
    overdue: u64,
}

unsafe extern "C" {
    fn quell_next_by_progress(all: *const Coming, count: u32, by: BoundsInC) -> u32;
}

proptest! {
    #[test]
    fn the_next_thread_by_progress_is_the_references(
        queue in prop::collection::vec((0u64..100, 0u64..40, 0u32..4), 0..8),
        (now, lead, overdue) in (0u64..120, 0u64..30, 0u64..120),
        clock in prop_oneof![Just(0), Just(u64::MAX - 20), any::<u64>()],
    ) {
        let all: Vec<Coming> = queue
            .iter()
            .map(|&(since, used, blocked)| Coming { since, used: clock.wrapping_add(used), blocked: blocked.into() })
            .collect();
        let waiting = all.iter().map(|one| Waiting {
            since: Nanos(one.since),
            used: Nanos(one.used),
            blocked: one.blocked as u32,
        });
        let bounds = Bounds { lead: Nanos(lead), overdue: Nanos(overdue) };
        let reference = next_by_progress(waiting, Nanos(now), bounds).unwrap_or(all.len());
        // SAFETY: as many threads as the count.
        let found =
            unsafe { quell_next_by_progress(all.as_ptr(), all.len() as u32, BoundsInC { now, least: 0, lead, overdue }) };
        prop_assert_eq!(found as usize, reference);
    }
}

type Spins = unsafe extern "C" fn(u32, u64, *mut u64) -> *const c_char;
type Next = unsafe extern "C" fn(bool, u64) -> u32;

const SPAN_NS: u64 = 10_000_000_000;
/// The other service's first thread.
const OTHER: u32 = 8;

/// One library, whose state both use: one test.
#[test]
fn services_have_their_shares_and_are_served_as_they_come_but_for_overdue_threads_that_others_sleep_on() {
    let library = Library::load("by-progress.so");
    // SAFETY: the functions have these types in `simulated_progress.h`.
    let (spins, next) = unsafe {
        (
            transmute::<*mut std::ffi::c_void, Spins>(library.find(c"simulation_spins_by_progress")),
            transmute::<*mut std::ffi::c_void, Next>(library.find(c"simulation_next_by_progress")),
        )
    };
    for firsts in [1, 2, 7] {
        let mut ran = [0_u64; 2];
        // SAFETY: two places.
        let answer = unsafe { spins(firsts, SPAN_NS, ran.as_mut_ptr()) };
        if !answer.is_null() {
            // SAFETY: a string that stays until the next call.
            panic!("{}", unsafe { CStr::from_ptr(answer) }.to_string_lossy());
        }
        let share = ran[1] as f64 / SPAN_NS as f64;
        assert!((share - 0.5).abs() < 0.01, "{firsts} threads against one: it has {share:.4}");
    }
    // SAFETY: numbers only.
    let next = |sleeps, span| unsafe { next(sleeps, span) };
    let (soon, late) = (1_000_000, 4_000_000);
    assert_eq!((next(false, soon), next(true, soon)), (1, 1), "first come, first served");
    assert_eq!((next(false, late), next(true, late)), (1, OTHER), "it is overdue, and a thread sleeps on it");
}
