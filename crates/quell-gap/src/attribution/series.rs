//! Seconds by cause that only grow, in a bounded number of series.

use std::collections::BTreeMap;

use quell_model::Nanos;

use super::{Cause, Key};

/// Names that a workload's causes have at most; a further one is *other*.
pub const MOST_NAMED: usize = 8;

/// What a cause took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The stated time.
    pub time: Nanos,
    /// It is at least this …
    pub low: Nanos,
    /// … and at most this, in 19 of 20.
    pub high: Nanos,
}

/// The account by cause. A cause that was once named stays named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    by: BTreeMap<Key, Entry>,
}

impl Series {
    /// Adds to a cause.
    pub fn add(&mut self, key: &Key, more: Entry) {
        let key = self.place_of(key);
        let entry = self.by.entry(key).or_default();
        entry.time += more.time;
        entry.low += more.low;
        entry.high += more.high;
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.by.iter()
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, key: &Key) -> Entry {
        self.by.get(key).copied().unwrap_or_default()
    }

    /// The sum of the stated times.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.by.values().fold(Nanos::ZERO, |sum, entry| sum + entry.time)
    }

    /// Where a cause is counted.
    #[must_use]
    pub fn place_of(&self, key: &Key) -> Key {
        let is_full = || self.by.keys().filter(|known| known.is_named()).count() >= MOST_NAMED;
        if key.is_named() && !self.by.contains_key(key) && is_full() { Key::of(Cause::Other) } else { key.clone() }
    }
}
