//! The queueing delay of a service's threads: how long each waited, runnable, before it ran.
//!
//! The kernel counts it for each thread (`/proc/PID/task/TID/schedstat`): the time spent waiting on a runqueue, and how often the
//! thread got a CPU. Of every short interval in which a thread ran, its mean wait is one value. A wait that has not ended is not
//! counted yet; it counts in the interval in which it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use quell_linux::procfs::SchedStat;
use quell_linux::{Census, mounted_hierarchies};
use quell_model::{Nanos, Selector};
use quell_thread::clock;

use super::Source;
use crate::error::{EffectError, Result};
use crate::phase::{Measure, Slice};

/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(10);
/// The longest: a mean over more would hide what a request waits for.
const LONGEST: Duration = Duration::from_secs(1);
/// Time between two looks for each thread: reading one takes some microseconds.
const PER_THREAD: Duration = Duration::from_micros(200);
/// Time between two looks for threads.
const SCAN: Nanos = Nanos(500_000_000);

/// The waiting of a service's threads.
#[derive(Debug)]
pub struct Waiting {
    census: Census,
    threads: BTreeMap<i32, Thread>,
    scanned: Nanos,
    last: Option<Nanos>,
    every: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    pid: i32,
    last: SchedStat,
}

impl Waiting {
    /// The threads of what these selectors select, now and later. The interval follows from their number now, in steps: means over
    /// unlike intervals do not compare, and a few threads more or less are to have the same.
    ///
    /// # Errors
    /// If there are none, or the kernel does not count their waiting.
    pub fn of(selectors: Vec<Selector>) -> Result<Waiting> {
        let census = Census::open("/proc".as_ref(), mounted_hierarchies(), vec![selectors])?;
        let mut waiting = Waiting { census, threads: BTreeMap::new(), scanned: Nanos(0), last: None, every: SHORTEST };
        waiting.scan()?;
        waiting.every = interval(waiting.threads.len());
        Ok(waiting)
    }

    /// Looks for threads that are new; keeps what is known of the others.
    fn scan(&mut self) -> Result<()> {
        let found = self.census.scan()?;
        self.scanned = clock::now();
        if found.is_empty() {
            return Err(EffectError::Ended);
        }
        let known = std::mem::take(&mut self.threads);
        let mut is_counted = false;
        for thread in found {
            let same = known.get(&thread.tid).filter(|known| known.pid == thread.pid).copied();
            let read = match same {
                Some(known) => Some(known.last),
                None => self.census.proc().schedstat(thread.pid, thread.tid)?,
            };
            is_counted |= read.is_some();
            if let Some(last) = read {
                self.threads.insert(thread.tid, Thread { pid: thread.pid, last });
            }
        }
        if is_counted { Ok(()) } else { Err(EffectError::NotCounted) }
    }

    /// The mean wait of each thread that ran since it was read.
    fn values(&mut self) -> Result<Vec<(u64, u64)>> {
        let mut cells = Vec::new();
        for (&tid, thread) in &mut self.threads {
            let Some(now) = self.census.proc().schedstat(thread.pid, tid)? else { continue };
            cells.extend(mean_wait(&thread.last, &now).map(|ns| (ns, 1)));
            thread.last = now;
        }
        Ok(cells)
    }
}

/// The shortest one doubled until it is long enough.
fn interval(threads: usize) -> Duration {
    let least = PER_THREAD * u32::try_from(threads).unwrap_or(u32::MAX).min(1 << 16);
    let steps = std::iter::successors(Some(SHORTEST), |interval| Some(*interval * 2));
    steps.take_while(|interval| *interval < LONGEST).find(|interval| *interval >= least).unwrap_or(LONGEST)
}

/// None where it did not run, or is another thread with its number.
fn mean_wait(before: &SchedStat, now: &SchedStat) -> Option<u64> {
    let runs = now.runs.checked_sub(before.runs).filter(|runs| *runs > 0)?;
    Some(now.run_delay.0.checked_sub(before.run_delay.0)? / runs)
}

impl Source for Waiting {
    fn measure(&self) -> Measure {
        Measure::QueueingDelay
    }

    fn every(&self) -> Duration {
        self.every
    }

    fn look(&mut self) -> Result<Option<Slice>> {
        let cells = self.values()?;
        let now = clock::now();
        if now.0.saturating_sub(self.scanned.0) >= SCAN.0 {
            self.scan()?;
        }
        let before = self.last.replace(now);
        Ok(before.map(|before| Slice { from_ns: before.0, to_ns: now.0, cells }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_a_mean_over_the_runs_between_two_looks() {
        let stat = |delay, runs| SchedStat { run_time: Nanos(0), run_delay: Nanos(delay), runs };
        for (before, now, wait) in [
            (stat(100, 1), stat(700, 4), Some(200)),
            (stat(100, 1), stat(100, 3), Some(0)),
            (stat(100, 1), stat(100, 1), None),
            (stat(100, 9), stat(700, 4), None),
            (stat(900, 1), stat(700, 4), None),
        ] {
            assert_eq!(mean_wait(&before, &now), wait, "{before:?} {now:?}");
        }
    }

    #[test]
    fn many_threads_are_read_less_often() {
        for (threads, ms) in
            [(0, 10), (1, 10), (50, 10), (51, 20), (100, 20), (1_000, 320), (5_000, 1_000), (usize::MAX, 1_000)]
        {
            assert_eq!(interval(threads), Duration::from_millis(ms), "{threads}");
        }
    }

    #[test]
    fn a_service_without_a_thread_is_refused() {
        // No process has this number (pid_max is 4,194,304 at most).
        let error = Waiting::of(vec![Selector::Pid(i32::MAX)]).unwrap_err();
        assert!(matches!(error, EffectError::Ended), "{error}");
    }
}
