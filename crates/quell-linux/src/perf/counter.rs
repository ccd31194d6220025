//! Hardware counters, and how a count is followed that loses its hardware for a while.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;

use quell_model::{CpuId, Nanos};

/// A counter that could not be had, or was lost, is tried again after this time.
const RETRY: Nanos = Nanos::from_secs(1);

/// A counter whose time stands still for this long has stopped. The kernel's clock may be as coarse as its tick.
const STANDSTILL: Nanos = Nanos::from_millis(10);

/// The counted event, as words of perf_event_open(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    /// The PMU's number (`type`).
    pub kind: u32,
    /// `config`, `config1` and `config2`.
    pub config: [u64; 3],
}

/// A counter's reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub count: u64,
    /// Time for which it was enabled.
    pub enabled: Nanos,
    /// Time for which it had the hardware and counted: less, if more events are requested than there are counters.
    pub running: Nanos,
}

/// Source of counters.
pub(crate) trait Counters: Debug + Send {
    /// Counts, from now on and for all threads, on this CPU or on the unit that this CPU stands for.
    fn open(&self, event: Event, cpu: CpuId) -> io::Result<Box<dyn Counter>>;
}

/// A counter; it ends with the value.
pub(crate) trait Counter: Debug + Send {
    /// The present reading.
    fn read(&mut self) -> io::Result<Reading>;

    /// Its file, for programs that read it in the kernel; None: it has none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Count between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    pub count: u64,
    pub enabled: Nanos,
    /// Zero: other programs had the hardware all the time; the events meanwhile count in the next reading.
    pub running: Nanos,
}

impl Counted {
    /// Per second.
    pub fn rate(&self) -> f64 {
        self.count as f64 / self.running.as_secs_f64()
    }

    /// The count as it would be had the counter had the hardware all the time.
    pub fn whole(&self) -> f64 {
        self.count as f64 * (self.enabled.0 as f64 / self.running.0 as f64)
    }
}

/// A counter that may vanish and come back: a CPU that goes offline takes its counters along.
#[derive(Debug)]
pub(crate) struct Meter {
    event: Event,
    cpu: CpuId,
    counter: Option<Box<dyn Counter>>,
    /// The last reading at which it had counted.
    before: Reading,
    /// `enabled` of the last reading, and when it had last changed.
    seen: Nanos,
    changed_at: Nanos,
    retry_at: Nanos,
}

impl Meter {
    /// Begins to count.
    pub fn open(event: Event, cpu: CpuId, now: Nanos, counters: &dyn Counters) -> io::Result<Meter> {
        let mut meter = Meter::closed(event, cpu);
        meter.counter = Some(counters.open(event, cpu)?);
        meter.changed_at = now;
        Ok(meter)
    }

    /// One that begins at its first look.
    pub fn closed(event: Event, cpu: CpuId) -> Meter {
        let (before, never) = (Reading::default(), Nanos::ZERO);
        Meter { event, cpu, counter: None, before, seen: Nanos::ZERO, changed_at: never, retry_at: never }
    }

    /// Count since the last reading; None: there is no counter now.
    pub fn look(&mut self, now: Nanos, counters: &dyn Counters) -> Option<Counted> {
        if self.counter.is_none() {
            self.open_again(now, counters);
        }
        let reading = self.counter.as_mut()?.read().ok();
        if reading.is_some_and(|reading| reading.enabled > self.seen) {
            self.changed_at = now;
        }
        let Some(reading) = reading.filter(|_| now - self.changed_at < STANDSTILL) else {
            (self.counter, self.retry_at) = (None, now + RETRY);
            return None;
        };
        self.seen = reading.enabled;
        let running = reading.running - self.before.running;
        if running == Nanos::ZERO {
            return Some(Counted::default());
        }
        let (count, enabled) = (reading.count.wrapping_sub(self.before.count), reading.enabled - self.before.enabled);
        self.before = reading;
        Some(Counted { count, enabled, running })
    }

    fn open_again(&mut self, now: Nanos, counters: &dyn Counters) {
        if now >= self.retry_at {
            self.counter = counters.open(self.event, self.cpu).ok();
            (self.before, self.seen) = (Reading::default(), Nanos::ZERO);
            (self.changed_at, self.retry_at) = (now, now + RETRY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::Bench;
    use super::*;

    const EVENT: Event = Event { kind: 4, config: [3, 0, 0] };
    const CPU: CpuId = CpuId(1);

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn a_shared_counter_is_scaled_by_the_time_in_which_it_counted() {
        let bench = Bench::default();
        let counters = bench.counters();
        let mut meter = Meter::open(EVENT, CPU, Nanos::ZERO, &*counters).unwrap();
        bench.set(EVENT, CPU, 100, at(2), at(1));
        let first = meter.look(at(2), &*counters).unwrap();
        assert_eq!((first.rate(), first.whole()), (100.0, 200.0));
        bench.set(EVENT, CPU, 100, at(3), at(1));
        assert_eq!(meter.look(at(3), &*counters), Some(Counted::default()), "it waits for the hardware");
        bench.set(EVENT, CPU, 160, at(5), at(2));
        let later = meter.look(at(5), &*counters).unwrap();
        assert_eq!((later.rate(), later.whole()), (60.0, 180.0), "the wait is counted in");
    }

    #[test]
    fn a_counter_that_stands_still_is_opened_again_a_second_later() {
        let bench = Bench::default();
        let counters = bench.counters();
        let mut meter = Meter::open(EVENT, CPU, Nanos::ZERO, &*counters).unwrap();
        bench.count(EVENT, CPU, 70, at(1));
        assert_eq!(meter.look(at(1), &*counters).unwrap().count, 70);
        let soon = at(1) + STANDSTILL - Nanos(1);
        assert_eq!(meter.look(soon, &*counters), Some(Counted::default()), "the clock may be coarse");
        assert_eq!(meter.look(at(2), &*counters), None, "its CPU went offline");
        bench.restart(EVENT, CPU);
        bench.count(EVENT, CPU, 5, at(1));
        assert_eq!(meter.look(at(2) + Nanos(1), &*counters), None, "not yet");
        assert_eq!((bench.opened(), bench.open()), (1, 0));
        assert_eq!(meter.look(at(3), &*counters).unwrap().count, 5);
        assert_eq!((bench.opened(), bench.open()), (2, 1));
    }

    #[test]
    fn a_counter_that_comes_later_is_waited_for() {
        let bench = Bench::default();
        let counters = bench.counters();
        bench.refuse(libc::ENODEV);
        assert!(Meter::open(EVENT, CPU, Nanos::ZERO, &*counters).is_err());
        let mut meter = Meter::closed(EVENT, CPU);
        assert_eq!(meter.look(at(1), &*counters), None);
        bench.allow();
        bench.count(EVENT, CPU, 8, at(1));
        assert_eq!(meter.look(at(2), &*counters).unwrap().count, 8);
    }
}
