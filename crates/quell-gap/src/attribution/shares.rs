//! By what shares a workload's wait in one burst goes to its causes.

use std::collections::BTreeMap;

use quell_model::Nanos;

use super::burst::SLICES;
use super::{Cause, Key};

/// A share, and how far it may be from that of a longer time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Of the wait.
    pub share: f64,
    /// Half of its interval of about 95 %.
    pub error: f64,
    /// And of that of its share in the burst itself, of which it is a sample.
    pub within: f64,
}

/// The shares of a burst, of one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// When the burst began.
    pub begin: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// The time that its threads waited in it.
    pub waited: Nanos,
    /// By cause; together 1, or nothing where it did not wait.
    pub of: BTreeMap<Key, Share>,
}

/// Slices of a burst follow each other, and are more alike than independent ones: factor on their error.
const ALIKE: f64 = 2.0;
/// Half of an interval of 95 %, in standard errors.
const WIDE: f64 = 2.0;
/// A sample counts as if this number of further instants had been looked at and nothing found (Agresti and Coull 1998): one look is no proof.
const UNSEEN: f64 = 4.0;
/// Of more looks than these, they are less than a hundredth.
const MANY: f64 = 400.0;

impl Shares {
    /// The shares of times by cause, of a workload that waited at this many instants. Their errors are from how they vary from slice
    /// to slice of the burst, and from how few instants there were. Of a few, a part of the wait is unknown.
    #[must_use]
    pub fn new(
        begin: Nanos,
        end: Nanos,
        times: &BTreeMap<Key, f64>,
        by_slice: &BTreeMap<&Key, &[f64; SLICES]>,
        looks: u32,
    ) -> Shares {
        let (total, looks) = (times.values().sum::<f64>(), f64::from(looks.max(1)));
        let found = if looks < MANY { looks / (looks + UNSEEN) } else { 1.0 };
        let in_slice: [f64; SLICES] = std::array::from_fn(|slice| by_slice.values().map(|row| row[slice]).sum());
        let share = |(key, time): (&Key, &f64)| {
            let share = time / total;
            let spread = match key.cause {
                // Of which slice it was is not known.
                Cause::OwnLimit | Cause::Unknown => share * (1.0 - share) / SLICES as f64,
                _ => spread(share, by_slice.get(key).copied().unwrap_or(&[0.0; SLICES]), &in_slice),
            };
            let within = WIDE * (share * (1.0 - share) / looks).sqrt() + (1.0 - found);
            let error = (WIDE * ALIKE * spread.sqrt()).max(within);
            (key.clone(), Share { share: share * found, error, within })
        };
        let mut of: BTreeMap<Key, Share> =
            times.iter().filter(|(_, time)| **time > 0.0 && total > 0.0).map(share).collect();
        if found < 1.0 && !of.is_empty() {
            let unknown = of.entry(Key::of(Cause::Unknown)).or_default();
            unknown.share += 1.0 - found;
            unknown.error = unknown.error.max(unknown.share);
        }
        Shares { begin, end, waited: Nanos(total as u64), of }
    }

    /// The share of a cause; nothing where it had none.
    #[must_use]
    pub fn get(&self, key: &Key) -> Share {
        self.of.get(key).copied().unwrap_or_default()
    }

    /// The length of the burst.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.end - self.begin
    }
}

/// The variance of a ratio of sums, from its terms.
fn spread(share: f64, of: &[f64; SLICES], all: &[f64; SLICES]) -> f64 {
    let (count, total) = (SLICES as f64, all.iter().sum::<f64>());
    if total <= 0.0 {
        return share * (1.0 - share);
    }
    let squares: f64 = of.iter().zip(all).map(|(time, all)| (time - share * all).powi(2)).sum();
    count / (count - 1.0) * squares / (total * total)
}
