//! Lost time estimated from what the kernel counts of each thread (`schedstat`).
//!
//! The kernel counts how long a thread waited, and not for what. A wait is laid to those that ran on the thread's CPU in the
//! same interval, in proportion to the time that they ran there. Threads that wait on one CPU at the same time lose one CPU's
//! time: a service loses no more on a CPU than has passed.

use std::collections::{BTreeMap, HashMap};

use quell_model::Nanos;
use quell_trace::Slot;

use super::waits::{Holder, Lost};

/// A thread's times since its birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Its number.
    pub tid: i32,
    /// Its service; none if it is the kernel's or Quell's.
    pub slot: Option<Slot>,
    /// The CPU that it was on.
    pub cpu: u32,
    /// Time on a CPU.
    pub run: Nanos,
    /// Time that it waited for one, counted when a wait ends.
    pub delay: Nanos,
}

/// The losses of services over a window, interval by interval.
#[derive(Clone, Debug)]
pub struct Guess {
    books: Vec<Lost>,
    before: HashMap<i32, (Nanos, Nanos)>,
    is_begun: bool,
    /// Time that a service can have waited on a CPU in the window so far, beyond what was laid to others.
    room: BTreeMap<(Slot, u32), Nanos>,
    passed: Nanos,
}

impl Guess {
    /// This number of services.
    #[must_use]
    pub fn new(services: usize) -> Guess {
        Guess {
            books: vec![Lost::default(); services],
            before: HashMap::new(),
            is_begun: false,
            room: BTreeMap::new(),
            passed: Nanos::ZERO,
        }
    }

    /// Takes the times of all threads, `interval` after the last ones. The first ones begin the window; a thread that comes later
    /// was born in it.
    pub fn take(&mut self, readings: &[Reading], interval: Nanos) {
        let mut ran: BTreeMap<u32, BTreeMap<Holder, u64>> = BTreeMap::new();
        let mut waited: BTreeMap<(Slot, u32), u64> = BTreeMap::new();
        for reading in readings {
            let before = self.before.insert(reading.tid, (reading.run, reading.delay));
            if !self.is_begun {
                continue;
            }
            let (run_before, delay_before) = before.unwrap_or_default();
            let (run, delay) = (reading.run.since(run_before), reading.delay.since(delay_before));
            if run > Nanos::ZERO {
                let holder = reading.slot.map_or(Holder::Thread(reading.tid), Holder::Service);
                *ran.entry(reading.cpu).or_default().entry(holder).or_default() += run.0;
            }
            let Some(slot) = reading.slot.filter(|slot| usize::from(*slot) < self.books.len()) else { continue };
            self.books[usize::from(slot)].ran += run;
            if delay > Nanos::ZERO {
                *waited.entry((slot, reading.cpu)).or_default() += delay.0;
            }
        }
        if self.is_begun {
            self.passed += interval;
        }
        self.is_begun = true;
        for ((slot, cpu), waited) in waited {
            // A wait that ends in this interval may have begun in an earlier one.
            let used = self.room.entry((slot, cpu)).or_default();
            let lost = waited.min(self.passed.since(*used).0);
            *used += Nanos(lost);
            let others = ran.get(&cpu).cloned().unwrap_or_default();
            self.lay(slot, lost, &others);
        }
    }

    /// The window's losses.
    #[must_use]
    pub fn close(self) -> Vec<Lost> {
        self.books
    }

    fn lay(&mut self, slot: Slot, lost: u64, ran: &BTreeMap<Holder, u64>) {
        let book = &mut self.books[usize::from(slot)];
        let all: u64 = ran.values().sum();
        if all == 0 {
            *book.by.entry(Holder::Idle).or_default() += Nanos(lost);
            return;
        }
        for (&holder, &time) in ran {
            let holder = if holder == Holder::Service(slot) { Holder::Own } else { holder };
            let part = u128::from(lost) * u128::from(time) / u128::from(all);
            *book.by.entry(holder).or_default() += Nanos(part as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(tid: i32, slot: Option<Slot>, cpu: u32, run: u64, delay: u64) -> Reading {
        Reading { tid, slot, cpu, run: Nanos::from_millis(run), delay: Nanos::from_millis(delay) }
    }

    fn by(lost: &Lost) -> Vec<(Holder, u64)> {
        lost.by.iter().map(|(holder, time)| (*holder, time.0 / 1_000_000)).collect()
    }

    #[test]
    fn a_wait_is_laid_to_those_that_ran_on_its_cpu() {
        let mut guess = Guess::new(2);
        guess.take(
            &[reading(1, Some(0), 0, 5, 900), reading(2, Some(1), 0, 0, 0), reading(3, None, 1, 0, 0)],
            Nanos::ZERO,
        );
        let later = [
            reading(1, Some(0), 0, 25, 980),
            reading(2, Some(1), 0, 60, 0),
            // Another CPU's thread, and one that was born meanwhile on this one.
            reading(3, None, 1, 100, 0),
            reading(4, None, 0, 20, 0),
        ];
        guess.take(&later, Nanos::from_millis(100));
        let lost = guess.close();
        assert_eq!(lost[0].ran, Nanos::from_millis(20));
        assert_eq!(by(&lost[0]), [(Holder::Service(1), 48), (Holder::Own, 16), (Holder::Thread(4), 16)]);
        assert_eq!(by(&lost[1]), []);
    }

    #[test]
    fn threads_that_wait_together_lose_one_cpus_time_and_a_long_wait_is_counted_when_it_ends() {
        let mut guess = Guess::new(2);
        let threads = |run: u64, delay: u64| {
            let waiting = (1..=4).map(move |tid| reading(tid, Some(0), 0, 0, delay));
            waiting.chain([reading(9, Some(1), 0, run, 0)]).collect::<Vec<_>>()
        };
        guess.take(&threads(0, 0), Nanos::ZERO);
        guess.take(&threads(100, 0), Nanos::from_millis(100));
        guess.take(&threads(200, 0), Nanos::from_millis(100));
        guess.take(&threads(300, 290), Nanos::from_millis(100));
        assert_eq!(by(&guess.close()[0]), [(Holder::Service(1), 300)]);
    }

    #[test]
    fn a_wait_while_nothing_ran_is_laid_to_no_service() {
        let mut guess = Guess::new(1);
        guess.take(&[reading(1, Some(0), 0, 0, 0)], Nanos::ZERO);
        guess.take(&[reading(1, Some(0), 0, 0, 30)], Nanos::from_millis(100));
        assert_eq!(by(&guess.close()[0]), [(Holder::Idle, 30)]);
    }
}
