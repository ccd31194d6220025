use proptest::prelude::*;
use quell_model::{CpuCount, CpuSet, Nanos};
use quell_trace::Task;

use super::{Sample, estimate};
use crate::account::Accounting;
use crate::account::tests::{figure3, play};
use crate::sample::{MachineTimes, ThreadTimes};
use crate::stage::Stage;

/// The samples that an ideal procfs would give for a play: every `period`, exact to the nanosecond.
fn samples(stage: &Stage, cpus: usize, period: Nanos) -> Vec<Sample> {
    let mut replay = Stage::new(cpus);
    let (mut now, mut sample) = (0, Sample::default());
    let mut taken = vec![sample.clone()];
    let mut pass = |replay: &Stage, until: u64| {
        while now < until {
            let next = (now / period.0 + 1) * period.0;
            let step = until.min(next) - now;
            for cpu in 0..cpus {
                let count = |sample: &mut Sample, tid: i32, slot: u16, run: u64, delay: u64| {
                    let at = sample.threads.iter().position(|thread| thread.tid == tid).unwrap_or_else(|| {
                        sample.threads.push(ThreadTimes { tid, slot, ..ThreadTimes::default() });
                        sample.threads.len() - 1
                    });
                    sample.threads[at].run += Nanos(run);
                    sample.threads[at].delay += Nanos(delay);
                };
                match replay.running(cpu) {
                    Task::Idle => sample.machine.idle += Nanos(step),
                    Task::Other(_) => sample.machine.busy += Nanos(step),
                    Task::Member(member) => {
                        sample.machine.busy += Nanos(step);
                        count(&mut sample, member.tid, member.slot, step, 0);
                    }
                }
                for member in replay.waiting(cpu) {
                    count(&mut sample, member.tid, member.slot, 0, step);
                }
            }
            now += step;
            (sample.at, sample.read) = (Nanos(now), Nanos(now));
            if now == next {
                taken.push(sample.clone());
            }
        }
    };
    for event in &stage.events {
        pass(&replay, event.at.0);
        replay.repeat(event);
    }
    pass(&replay, stage.now.0);
    if sample.at > taken.last().unwrap().at {
        taken.push(sample);
    }
    taken
}

fn within(a: Nanos, b: Nanos, error: Nanos) -> bool {
    a.0.abs_diff(b.0) <= error.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_truth_is_within_the_stated_error(
        cpus in 1usize..4,
        requests in proptest::collection::vec((0u32..3000).prop_map(CpuCount), 1..3),
        moves in proptest::collection::vec((any::<u8>(), any::<usize>(), any::<usize>(), 0u64..30_000_000), 1..60),
    ) {
        let (stage, _) = play(cpus, &requests, &moves);
        let period = Nanos::from_millis(100);
        let samples = samples(&stage, cpus, period);
        let mut accounting = Accounting::new(&requests, CpuSet::first(cpus), Nanos::ZERO, period);
        stage.events.iter().for_each(|event| accounting.apply(event));
        for (slot, truth) in accounting.close(stage.now).into_iter().map(|settled| settled.account).enumerate() {
            let guess = estimate(&samples, (Nanos::ZERO, stage.now), slot as u16, requests[slot], cpus as u32);
            prop_assert!(within(guess.account.gap, truth.gap, guess.gap_error), "{guess:?}\n{truth:?}");
            prop_assert_eq!(guess.account.got, truth.got);
            let account = guess.account;
            prop_assert_eq!(account.kept + account.frs + account.pct + account.rest, account.due);
        }
    }
}

#[test]
fn figure_3_is_told_apart_by_samples_too() {
    let ends = [(2.0, 0.6, 0.4, 0.0), (2.0 / 2.4, 2.0 / 3.0, 0.0, 1.0 / 3.0)];
    for (busy, got, frs, pct) in ends {
        let (stage, requests) = figure3(2, 683, f64::min(busy, 1.0), 20);
        let guess = estimate(&samples(&stage, 3, Nanos::from_millis(100)), (Nanos::ZERO, stage.now), 0, requests[0], 3);
        let requested = guess.account.requested;
        for (value, expected) in [(guess.account.got, got), (guess.account.frs, frs), (guess.account.pct, pct)] {
            let share = value.0 as f64 / requested.0 as f64;
            assert!((share - expected).abs() < 0.01, "{share} instead of {expected}: {guess:?}");
        }
        assert!(guess.gap_error.0 as f64 / (requested.0 as f64) < 0.02, "{guess:?}");
    }
}

#[test]
fn a_wait_that_is_counted_late_belongs_to_the_period_in_which_it_was_and_a_late_reader_says_so() {
    let sample = |at: u64, run: u64, delay: u64| Sample {
        at: Nanos::from_millis(at),
        read: Nanos::from_millis(at),
        machine: MachineTimes { busy: Nanos::from_millis(at), ..MachineTimes::default() },
        threads: vec![ThreadTimes {
            tid: 1,
            slot: 0,
            run: Nanos::from_millis(run),
            delay: Nanos::from_millis(delay),
            runnable: false,
        }],
    };
    // It waits from 50 to 150 ms, which is counted at 150 ms.
    let window = (Nanos::ZERO, Nanos::from_millis(200));
    let mut samples = [sample(0, 0, 0), sample(100, 50, 0), sample(200, 100, 100)];
    let guess = estimate(&samples, window, 0, CpuCount::whole(1), 1);
    assert_eq!((guess.account.due, guess.account.gap), (Nanos::from_millis(200), Nanos::from_millis(100)));
    // The reader had no CPU for 30 ms while it read the first sample, and for 40 ms when it should have read the last.
    samples[0].read = Nanos::from_millis(30);
    samples[2].read = Nanos::from_millis(240);
    let late = estimate(&samples, window, 0, CpuCount::whole(1), 1);
    assert_eq!(late.gap_error, guess.gap_error + Nanos::from_millis(70));
}
