//! Races, played step by step: what another CPU does comes exactly in between.

use std::sync::atomic::Ordering::Relaxed;

use quell_scx::layout::{MAX_SLOTS, NO_CPU, NO_SLOT, PARKED, WorkloadState};

use crate::half::{Half, Place, WAKES, meanwhile};

const SYSTEM: u32 = MAX_SLOTS as u32;
const AWAY_REPORTED: u32 = 1;
const AWAY_FOUND: u32 = 2;
const MS: u64 = 1_000_000;
/// What the machine's clock says in the beginning.
const START: u64 = 1_000 * MS;

extern "C" fn cpu_0_is_released() {
    meanwhile::releases(0);
}

#[test]
fn what_the_kernel_told_of_a_cpu_is_not_replaced_by_what_a_wake_up_saw() {
    let half = Half::with_cpus(2);
    half.workload(0, true);
    let server = half.thread(0, 0, 0b11);
    half.has_real_time(0, true);
    assert_eq!(half.chooses(server), 1, "not the one that a real-time thread is about to have");
    assert_eq!(half.cpu(0).away.load(Relaxed), AWAY_FOUND);

    half.cpu(0).away.store(0, Relaxed);
    half.does_at(Place::LookForRealTime, cpu_0_is_released);
    assert_eq!(half.chooses(server), 1);
    assert_eq!(half.cpu(0).away.load(Relaxed), AWAY_REPORTED, "the kernel reported so between the look and the store");
}

#[test]
fn what_the_kernel_told_of_a_cpu_is_not_taken_back_by_the_patrol() {
    let half = Half::with_cpus(2);
    half.cpu(0).away.store(AWAY_FOUND, Relaxed);
    half.does_at(Place::LookAtCurrent, cpu_0_is_released);
    half.patrols();
    assert_eq!(half.cpu(0).away.load(Relaxed), AWAY_REPORTED);
}

#[test]
fn who_came_after_the_patrol_read_the_clock_is_not_overdue() {
    let half = Half::with_cpus(2);
    half.workload(0, false).on_wake_up.store(0, Relaxed);
    let (fresh, old) = (half.thread(0, 0, 0b11), half.thread(1, 0, 0b11));
    half.enqueues(0, WAKES);
    half.enqueues(1, WAKES);
    let now = START + 20_000 * MS;
    half.wants_since(fresh, now + 1);
    half.wants_since(old, START);
    half.hurries(0, now);
    assert!(half.is_overdue(old), "it waited for 20 s");
    assert!(!half.is_overdue(fresh), "it came a moment after");
}

#[test]
fn threads_that_crowd_after_the_clock_was_read_count_as_crowded() {
    let half = Half::with_cpus(2);
    let server = half.workload(0, true);
    server.crowded_at.store(START + 1, Relaxed);
    assert!(!half.is_served_at_once(0, START));
    assert!(!half.is_served_at_once(0, START + MS / 10));
    assert!(half.is_served_at_once(0, START + MS));
}

#[test]
fn who_stays_is_not_fetched_at_once_when_the_cpu_was_lost_after_the_clock_was_read() {
    let half = Half::with_cpus(2);
    let cpu = half.cpu(0);
    cpu.kept.store(1, Relaxed);
    cpu.away.store(AWAY_REPORTED, Relaxed);
    cpu.away_since.store(START + 1, Relaxed);
    half.fetch(0, START);
    assert_eq!(half.fetches(), 0);
    half.fetch(0, START + 10 * MS);
    assert_eq!(half.fetches(), 1);
}

extern "C" fn another_group_needs_the_patrol_in_a_millisecond() {
    meanwhile::patrols_by(START + MS);
}

#[test]
fn the_patrol_comes_at_the_earliest_time_that_any_cpu_asked_for() {
    let half = Half::with_cpus(2);
    half.patrols();
    assert_eq!(half.next_patrol(), START + 50 * MS);
    half.does_at(Place::TimerStart, another_group_needs_the_patrol_in_a_millisecond);
    meanwhile::patrols_by(START + 10 * MS);
    assert_eq!(half.next_patrol(), START + MS, "asked for before the later one started the timer");

    half.does_at(Place::TimerStart, another_group_needs_the_patrol_in_a_millisecond);
    half.patrols();
    assert_eq!(half.next_patrol(), START + MS, "asked for before the patrol itself started the timer");
}

/// A workload in the line, one thread of which waits that may run on these CPUs.
fn waits(half: &Half, slot: u32, cpus: u64) -> &WorkloadState {
    let state = half.workload(slot, false);
    state.on_wake_up.store(0, Relaxed);
    state.rank.store(slot, Relaxed);
    half.thread(slot, slot, cpus);
    half.enqueues(slot, WAKES);
    state
}

#[test]
fn a_cpu_goes_to_the_fourth_in_line_and_beyond_if_only_they_may_use_it() {
    for others in [1, 3, 4, 7] {
        let half = Half::with_cpus(2);
        let passed: Vec<_> = (0..others).map(|slot| waits(&half, slot, 0b10)).collect();
        waits(&half, others, 0b11);
        assert_eq!(half.dispatches(0), Some(others), "after {others} that may use CPU 1 only");
        assert_eq!(half.cpu(0).holder.load(Relaxed), others);
        assert!(passed.iter().all(|state| state.held.load(Relaxed) == 0));
        half.cpu(0).holder.store(NO_SLOT, Relaxed);
    }
}

extern "C" fn slot_0_becomes_latency_critical_and_a_thread_of_it_comes() {
    meanwhile::is_reused(0, true);
    meanwhile::enqueues(1, WAKES);
}

extern "C" fn slot_0_becomes_best_effort_and_a_thread_of_it_comes() {
    meanwhile::is_reused(0, false);
    meanwhile::enqueues(1, WAKES);
}

#[test]
fn a_slot_that_is_reused_by_the_other_class_mixes_no_queue_and_loses_no_thread() {
    for was_lc in [false, true] {
        let half = Half::with_cpus(2);
        half.workload(0, was_lc).on_wake_up.store(0, Relaxed);
        half.thread(0, 0, 0b11);
        half.thread(1, 0, 0b11);
        half.does_at(
            Place::Insert,
            match was_lc {
                false => slot_0_becomes_latency_critical_and_a_thread_of_it_comes,
                true => slot_0_becomes_best_effort_and_a_thread_of_it_comes,
            },
        );
        half.enqueues(0, WAKES);
        assert!(!half.is_mixed(), "the kernel ends the scheduler");
        half.patrols();
        assert!(!half.is_mixed());
        let mut run: Vec<_> = (0..2).filter_map(|cpu| half.dispatches(cpu)).collect();
        run.sort_unstable();
        assert_eq!(run, [0, 1], "latency-critical before: {was_lc}");
    }
}

#[test]
fn draining_a_slot_empties_both_of_its_queues() {
    let half = Half::with_cpus(2);
    half.workload(0, false).on_wake_up.store(0, Relaxed);
    half.thread(0, 0, 0b11);
    half.thread(1, 0, 0b11);
    half.enqueues(0, WAKES);
    meanwhile::is_reused(0, true);
    half.enqueues(1, WAKES);
    half.belongs_to(0, SYSTEM);
    half.belongs_to(1, SYSTEM);
    half.drains(0);
    assert_eq!(half.waiting(0), 0);
    assert_eq!(half.waiting(SYSTEM), 2);
}

/// A thread that a CPU has taken from its queue is enqueued anew if a real-time thread takes the CPU before it runs. If its
/// group is throttled by then, it waits for the next period, and no longer.
#[test]
fn who_lost_its_cpu_before_it_ran_and_is_throttled_meanwhile_goes_on_in_the_next_period() {
    let half = Half::with_cpus(1);
    half.workload(0, false).on_wake_up.store(0, Relaxed);
    half.thread(0, 0, 0b1);
    half.enqueues(0, WAKES);
    assert_eq!(half.dispatches(0), Some(0));
    half.throttles();
    half.enqueues(0, 0);
    assert_eq!((half.waiting(0), half.dispatches(0)), (0, None), "it counts for no queue while it is throttled");
    half.sets_clock(START + 101 * MS);
    half.patrols();
    assert_eq!(half.waiting(0), 1);
    assert_eq!(half.dispatches(0), Some(0));
}

extern "C" fn cpu_0_goes_offline() {
    meanwhile::goes_offline(0);
}

#[test]
fn a_cpu_that_goes_offline_before_it_is_taken_has_no_holder() {
    let half = Half::with_cpus(2);
    let server = half.workload(0, true);
    half.does_at(Place::LookAtCurrent, cpu_0_goes_offline);
    assert!(!half.takes_chosen(0, 0), "it was online when it was looked at");
    assert_eq!(half.cpu(0).holder.load(Relaxed), NO_SLOT);
    assert_eq!(server.held.load(Relaxed), 0);
    assert!(half.takes_chosen(1, 0));
    assert_eq!(server.held.load(Relaxed), 1);
}

#[test]
fn the_loader_gives_an_offline_cpu_to_nobody() {
    let half = Half::with_cpus(2);
    let server = half.workload(0, true);
    meanwhile::goes_offline(0);
    assert_eq!(half.shared().hand_on(0, NO_SLOT, 0), None, "it went offline after the loader had looked");
    assert_eq!(half.cpu(0).holder.load(Relaxed), NO_SLOT);
    assert_eq!(half.shared().hand_on(0, NO_SLOT, PARKED), Some(true), "parking it does no harm");
    assert_eq!(half.shared().hand_on(1, NO_SLOT, 0), Some(true));
    assert_eq!(server.held.load(Relaxed), 1);
}

#[test]
fn a_cpu_that_was_not_there_when_the_scheduler_was_loaded_joins_when_it_comes() {
    let half = Half::with_cpus(1);
    let server = half.workload(0, true);
    half.cpu(1).in_pool.store(1, Relaxed);
    let thread = half.thread(0, 0, 0b10);
    assert_eq!(half.chooses(thread), NO_CPU);
    half.comes_online(1);
    assert_eq!(half.chooses(thread), 1);
    assert!(half.takes_chosen(1, 0));
    assert_eq!(server.held.load(Relaxed), 1);
}

#[test]
fn a_workload_that_leaves_its_limit_tells_the_cpus_that_its_other_threads_may_use() {
    let half = Half::with_cpus(2);
    half.workload(0, false).limit.store(1, Relaxed);
    half.thread(0, 0, 0b01);
    half.thread(1, 0, 0b10);
    half.enqueues(0, WAKES);
    half.runs(0);
    half.enqueues(1, WAKES);
    assert_eq!(half.dispatches(1), None, "the workload has all CPUs that it may have");
    half.stops(0, false);
    assert_eq!(half.dispatches(0), None);
    assert!(half.is_woken(1));
    assert_eq!(half.dispatches(1), Some(1));
}

#[test]
fn the_patrol_tells_when_threads_begin_and_cease_to_be_scheduled_by_cores() {
    let half = Half::with_cpus(2);
    for (at, has) in [(1, false), (2, true), (3, true), (4, false)] {
        half.sets_clock(START + at * 50 * MS);
        assert_eq!(half.hears_of_cookies(has), has);
    }
}
