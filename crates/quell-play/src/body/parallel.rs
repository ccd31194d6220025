//! Threads that meet at barriers; see `quell_sim::workload::ParallelSpec`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use quell_model::Nanos;
use quell_report::stats::Histogram;
use quell_sim::workload::ParallelSpec;
use quell_thread::clock;

use super::Body;

/// How often a thread that spins looks at the barrier, CPU time.
const LOOK: Nanos = Nanos::from_micros(2);

/// A barrier that has an end: that of the course.
pub struct Barrier {
    met: Mutex<Met>,
    opens: Condvar,
    /// How many times it has opened: for threads that spin.
    opened: AtomicU32,
}

struct Met {
    threads: u32,
    /// Rounds of the job under way.
    rounds: u32,
    /// When that job began.
    began: Nanos,
}

impl Barrier {
    pub fn new(begin: Nanos) -> Barrier {
        Barrier {
            met: Mutex::new(Met { threads: 0, rounds: 0, began: begin }),
            opens: Condvar::new(),
            opened: AtomicU32::new(0),
        }
    }

    fn opened(&self) -> u32 {
        self.opened.load(Ordering::Acquire)
    }

    /// One more is here; is it the last of them?
    fn is_last(&self, of: u32) -> bool {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.threads += 1;
        met.threads == of
    }

    /// All may go on. When the job began that has this many rounds and now ends, if it does.
    fn open(&self, rounds: u32, now: Nanos) -> Option<Nanos> {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        (met.threads, met.rounds) = (0, met.rounds + 1);
        self.opened.fetch_add(1, Ordering::Release);
        self.opens.notify_all();
        if met.rounds < rounds {
            return None;
        }
        met.rounds = 0;
        Some(std::mem::replace(&mut met.began, now))
    }

    /// Sleeps until it has opened more than this many times, or until CLOCK_MONOTONIC shows `end`.
    fn sleep(&self, opened: u32, end: Nanos) {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let left = Duration::from_nanos(end.0.saturating_sub(clock::now().0));
        let waits = self.opens.wait_timeout_while(met, left, |_| self.opened() == opened);
        drop(waits.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Body<'_> {
    pub fn meet(&self, parallel: &ParallelSpec) -> Histogram {
        let (mut latencies, end) = (Histogram::default(), self.course.end);
        while clock::now() < end {
            let opened = self.barrier.opened();
            let work = self.shared().draws.work(&parallel.work);
            if self.pace.work_until(work, end) > Nanos::ZERO {
                break;
            }
            if !self.barrier.is_last(self.spec.threads) {
                self.await_others(opened, parallel.spin);
                continue;
            }
            if let Some(serial) = &parallel.serial {
                let work = self.shared().draws.work(serial);
                let _ = self.pace.work_until(work, end);
            }
            let now = clock::now();
            if let Some(began) = self.barrier.open(parallel.rounds, now).filter(|_| now < end) {
                self.count(began);
                if self.course.counts(began) {
                    latencies.record((now - began).0);
                }
            }
        }
        latencies
    }

    fn await_others(&self, opened: u32, spin: Nanos) {
        let mut spun = Nanos::ZERO;
        while spun < spin && self.barrier.opened() == opened {
            self.pace.work(LOOK);
            spun += LOOK;
        }
        self.barrier.sleep(opened, self.course.end);
    }
}
