//! The gap estimated from samples of procfs, with the error stated.
//!
//! Run time and run delay of each thread give the time for which it was runnable in a period, but not *when*: threads
//! that were runnable together are due less than threads that were runnable one after another. The truth lies between
//! two bounds (`due_bounds`); the estimate is the middle. Causes are coarser still: procfs does not separate the thread
//! that another waited for, and has idle time for the whole machine only. What can be excluded is excluded; the rest is
//! in the stated error.

use std::collections::BTreeMap;

use quell_model::{CpuCount, Nanos};
use serde::{Deserialize, Serialize};

use crate::integrals::Account;
use crate::sample::Sample;

/// The kernel updates a running thread's time at each tick; the longest tick that Linux has is 10 ms (HZ=100). It is
/// also the step of `/proc/stat`.
const TICK: Nanos = Nanos::from_millis(10);

/// An account with its error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// The middle of the possible values.
    pub account: Account,
    /// The gap is at most this far from the truth, either way.
    pub gap_error: Nanos,
    /// FRS, PCT and rest are each at most this far from the truth.
    pub cause_error: Nanos,
}

/// Times of one thread in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    run: u64,
    delay: u64,
}

impl Span {
    fn runnable(self) -> u64 {
        self.run + self.delay
    }
}

/// Estimates one workload's account of a window, its begin and end, from consecutive samples; periods are the spans
/// between them. A thread that is not in the first sample was created later.
#[must_use]
pub fn estimate(samples: &[Sample], (begin, end): (Nanos, Nanos), slot: u16, request: CpuCount, cpus: u32) -> Estimate {
    let lengths: Vec<u64> = samples.windows(2).map(|pair| pair[1].at.since(pair[0].at).0).collect();
    let Tracks { threads, vanished, edges } = tracks(samples, slot, &lengths);
    let usable = u128::from(request.0.min(cpus * 1000));
    let mut sum = Sums::default();
    for (index, &length) in lengths.iter().enumerate() {
        let spans: Vec<Span> = threads.iter().map(|track| track[index]).collect();
        let machine = (samples[index].machine, samples[index + 1].machine);
        let (idle, busy) = (machine.1.idle - machine.0.idle, machine.1.busy - machine.0.busy);
        let own_cpus = usable * u128::from(length) / 1000;
        sum.add(&spans, length, usable, own_cpus as u64, cpus, idle.0, busy.0);
        sum.requested += u64::try_from(u128::from(request.0) * u128::from(length) / 1000).unwrap_or(u64::MAX);
    }
    // What was read late, at either end, is of another window.
    let late = |sample: Option<&Sample>, edge: Nanos| sample.map_or(0, |sample| sample.read.since(edge).0);
    let outside = u128::from(late(samples.first(), begin) + late(samples.last(), end)) * usable / 1000;
    let unseen = edges + vanished * lengths.iter().copied().max().unwrap_or(0) + outside as u64;
    sum.estimate(unseen, cpus)
}

/// Each thread's spans, by period.
struct Tracks {
    threads: Vec<Vec<Span>>,
    /// Threads whose exit was not seen.
    vanished: u64,
    /// Bound on the error of the waits at both ends of the window.
    edges: u64,
}

fn tracks(samples: &[Sample], slot: u16, lengths: &[u64]) -> Tracks {
    let mut readings: BTreeMap<i32, Vec<(usize, Span)>> = BTreeMap::new();
    for (index, sample) in samples.iter().enumerate() {
        for thread in sample.threads.iter().filter(|thread| thread.slot == slot) {
            let reading = Span { run: thread.run.0, delay: thread.delay.0 };
            readings.entry(thread.tid).or_default().push((index, reading));
        }
    }
    let vanished =
        readings.values().filter(|readings| readings.last().is_some_and(|last| last.0 < lengths.len())).count();
    let runnable = |sample: Option<&Sample>, tid: i32| {
        sample.is_some_and(|sample| sample.threads.iter().any(|thread| thread.tid == tid && thread.runnable))
    };
    let mut edges = 0;
    let track = |(tid, readings): (i32, Vec<(usize, Span)>)| {
        let mut track = vec![Span::default(); lengths.len()];
        // A thread that was there from the beginning brings its past; a younger one began at zero.
        let mut before = if readings[0].0 == 0 { readings[0].1 } else { Span::default() };
        for &(index, now) in readings.iter().filter(|(index, _)| *index > 0) {
            track[index - 1] =
                Span { run: now.run.saturating_sub(before.run), delay: now.delay.saturating_sub(before.delay) };
            before = now;
        }
        carry_back(&mut track, lengths);
        // The wait that was under way at the beginning is counted whole, when it ends; the one at the end not at all.
        if let (true, Some(first)) = (runnable(samples.first(), tid), track.first()) {
            edges += first.delay;
        }
        if runnable(samples.last(), tid) {
            // It may be longer than the last period.
            let last = track.iter().zip(lengths).rev().take(2);
            edges += last.map(|(span, length)| length.saturating_sub(span.runnable())).sum::<u64>();
        }
        if track.iter().any(|span| span.runnable() > 0) {
            edges += 2 * TICK.0;
        }
        track
    };
    let threads = readings.into_iter().map(track).collect();
    Tracks { threads, vanished: vanished as u64, edges }
}

/// A wait is counted when it ends, a run at the next tick: an excess over a period began in the one before.
fn carry_back(track: &mut [Span], lengths: &[u64]) {
    for index in (0..track.len()).rev() {
        let over = track[index].runnable().saturating_sub(lengths[index]);
        let delay = over.min(track[index].delay);
        let run = over - delay;
        track[index].delay -= delay;
        track[index].run -= run;
        // Time before the first sample is not the window's.
        if index > 0 {
            track[index - 1].delay += delay;
            track[index - 1].run += run;
        }
    }
}

/// The least and the most that can be due to threads that were runnable for these times in a period, with
/// `usable_milli` thousandths of a CPU usable: all at the same time, and as evenly spread as possible.
fn due_bounds(runnable: &mut [u64], usable_milli: u128, own_cpus: u64) -> (u64, u64) {
    runnable.sort_unstable();
    let (mut least, mut before) = (0u128, 0u64);
    for (index, &time) in runnable.iter().enumerate() {
        let together = (runnable.len() - index) as u128;
        least += u128::from(time - before) * usable_milli.min(together * 1000);
        before = time;
    }
    let most = runnable.iter().sum::<u64>().min(own_cpus);
    (((least / 1000) as u64).min(most), most)
}

#[derive(Default)]
struct Sums {
    requested: u64,
    demanded: u64,
    got: u64,
    due: (u64, u64),
    gap: (u64, u64),
    /// Per period: the least and the most of the gap that idle time can have covered.
    covered: (u64, u64),
    phantom: (u64, u64),
    /// Idle time in periods with a gap, the least and the most; and the number of runs of such periods.
    idle_with_gap: (u64, u64),
    runs_of_gaps: u64,
    in_gap: bool,
    /// The most of the gap that can be sharing: others ran that long in periods with a gap.
    others: u64,
    /// The most of it that can be waiting for threads of its own.
    stacked: u64,
}

impl Sums {
    #[allow(clippy::too_many_arguments)]
    fn add(&mut self, spans: &[Span], length: u64, usable: u128, own_cpus: u64, cpus: u32, idle: u64, busy: u64) {
        let mut runnable: Vec<u64> = spans.iter().map(|span| span.runnable()).collect();
        let total: u64 = runnable.iter().sum();
        let longest = runnable.iter().copied().max().unwrap_or(0);
        let (due_least, due_most) = due_bounds(&mut runnable, usable, own_cpus);
        let got: u64 = spans.iter().map(|span| span.run).sum();
        let all_cpus = length * u64::from(cpus);
        self.demanded += total.min(all_cpus);
        self.got += got;
        self.due = (self.due.0 + due_least, self.due.1 + due_most);
        let gap = (due_least.saturating_sub(got), due_most.saturating_sub(got));
        self.gap = (self.gap.0 + gap.0, self.gap.1 + gap.1);
        // It had something to run for at least its longest thread's time and at most all times one after another.
        let idle_most = idle.min(total.min(length) * u64::from(cpus));
        let idle_least = idle.saturating_sub(all_cpus - longest.min(length) * u64::from(cpus));
        self.phantom = (self.phantom.0 + idle_least, self.phantom.1 + idle_most);
        self.covered = (self.covered.0 + gap.0.min(idle_least), self.covered.1 + gap.1.min(idle_most));
        if gap.1 > 0 {
            self.runs_of_gaps += u64::from(!self.in_gap);
            self.idle_with_gap = (self.idle_with_gap.0 + idle_least, self.idle_with_gap.1 + idle_most);
            self.others += busy.saturating_sub(got);
            if spans.iter().filter(|span| span.runnable() > 0).count() > 1 {
                self.stacked += got.min(gap.1);
            }
        }
        self.in_gap = gap.1 > 0;
    }

    fn estimate(&self, unseen: u64, cpus: u32) -> Estimate {
        let middle = |range: (u64, u64)| range.0.midpoint(range.1);
        let half = |range: (u64, u64)| range.1.abs_diff(range.0).div_ceil(2);
        let gap = middle(self.gap);
        let due = middle(self.due).max(gap);
        // Over the window, the steps of /proc/stat fall out; period by period they do not.
        let whole = (self.gap.0.min(self.idle_with_gap.0), self.gap.1.min(self.idle_with_gap.1));
        let pct = middle(whole).min(gap);
        let frs = (gap - pct).min(self.others);
        // Nothing is lost that was not requested.
        let gap_error = (half(self.gap) + unseen).min(gap.max(self.requested.saturating_sub(gap)));
        let steps = TICK.0 * u64::from(cpus) * 2 * self.runs_of_gaps.max(1);
        let between = (self.covered.0.min(whole.0), self.covered.1.max(whole.1));
        let cause_error =
            gap_error + steps + (between.1 - pct).max(pct.saturating_sub(between.0)) + self.stacked.min(frs);
        let account = Account {
            requested: Nanos(self.requested),
            demanded: Nanos(self.demanded),
            due: Nanos(due),
            got: Nanos(self.got),
            kept: Nanos(due - gap),
            gap: Nanos(gap),
            frs: Nanos(frs),
            pct: Nanos(pct),
            rest: Nanos(gap - pct - frs),
            shared: Nanos(gap.min(self.others)),
            phantom: Nanos(middle(self.phantom)),
        };
        Estimate { account, gap_error: Nanos(gap_error), cause_error: Nanos(cause_error) }
    }
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
