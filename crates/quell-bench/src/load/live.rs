//! The latencies of a run that is under way, for another thread to take out now and then.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets in each power of two: an upper end is at most 3 % above a latency.
const PER_OCTAVE: usize = 32;
const OCTAVES: usize = 60;

/// A histogram that the generator writes without waiting and another thread empties.
#[derive(Debug)]
pub struct Live {
    answered: Box<[AtomicU64]>,
    /// Requests whose time has come and that have no answer yet.
    waiting: AtomicU64,
    /// When the first of them was due, CLOCK_MONOTONIC ns.
    since: AtomicU64,
}

impl Default for Live {
    fn default() -> Self {
        let answered = (0..PER_OCTAVE * OCTAVES).map(|_| AtomicU64::new(0)).collect();
        Self { answered, waiting: AtomicU64::new(0), since: AtomicU64::new(0) }
    }
}

impl Live {
    /// Counts one latency, ns.
    pub fn record(&self, ns: u64) {
        self.answered[bucket(ns)].fetch_add(1, Relaxed);
    }

    /// Takes the counts since the last call: latencies (upper ends of buckets, ns) and the numbers of their requests.
    pub fn take(&self) -> Vec<(u64, u64)> {
        let counts = self.answered.iter().map(|count| count.swap(0, Relaxed)).enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(bucket, count)| (upper_end(bucket), count)).collect()
    }

    /// Notes how many requests wait for their answers, and since when the first of them does.
    pub fn note_waiting(&self, count: u64, since: u64) {
        self.since.store(since, Relaxed);
        self.waiting.store(count, Relaxed);
    }

    /// Requests that have waited for an answer for at least this long, ns: for how long so far, taken as evenly apart, each with
    /// its count.
    #[must_use]
    pub fn waiting(&self, now: u64, at_least: u64) -> Vec<(u64, u64)> {
        let (count, oldest) = (self.waiting.load(Relaxed), now.saturating_sub(self.since.load(Relaxed)));
        let age = |number: u64| (u128::from(oldest) * u128::from(number) / u128::from(count)) as u64;
        (1..=count).map(age).filter(|age| *age >= at_least).map(|age| (age, 1)).collect()
    }
}

fn bucket(ns: u64) -> usize {
    let octave = (ns.max(1).ilog2() as usize).saturating_sub(PER_OCTAVE.ilog2() as usize);
    PER_OCTAVE * octave + (ns >> octave) as usize
}

fn upper_end(bucket: usize) -> u64 {
    let octave = (bucket / PER_OCTAVE).saturating_sub(1);
    let within = (bucket - PER_OCTAVE * octave) as u128;
    u64::try_from(((within + 1) << octave) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_long_is_counted_by_its_age() {
        let live = Live::default();
        assert_eq!(live.waiting(1_000, 0), []);
        live.note_waiting(4, 600);
        assert_eq!(live.waiting(1_000, 250), [(300, 1), (400, 1)]);
        assert_eq!(live.waiting(1_000, 401), [], "none has waited for this time");
        live.note_waiting(0, 0);
        assert_eq!(live.waiting(1_000, 0), [], "all are answered");
    }

    #[test]
    fn a_latency_is_just_below_its_buckets_upper_end() {
        for ns in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, (1 << bit) + (1 << bit) / 3]).chain([u64::MAX]) {
            let bucket = bucket(ns);
            assert!(bucket < PER_OCTAVE * OCTAVES, "{ns}");
            let end = upper_end(bucket);
            assert!(ns <= end && (end - ns) as f64 <= 0.04 * ns as f64, "{ns} in the bucket that ends at {end}");
        }
    }

    #[test]
    fn what_was_taken_is_gone() {
        let live = Live::default();
        [5, 5, 1_000_000].into_iter().for_each(|ns| live.record(ns));
        let taken = live.take();
        assert_eq!((taken.len(), taken[0]), (2, (5, 2)));
        assert!(live.take().is_empty());
    }
}
