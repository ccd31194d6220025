//! A histogram of nanoseconds that can be written to JSON and read back.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest value with a cell of its own, ns (an hour). Larger ones count as this.
const MAX_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of every value.
const DIGITS: u8 = 3;

/// Counts of nanoseconds with three significant digits, from 1 ns to an hour (HDR histogram). In JSON it is the list
/// of its cells, `[[highest ns, count], …]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(hdrhistogram::Histogram::new_with_bounds(1, MAX_NS, DIGITS).expect("constant bounds"))
    }
}

impl Histogram {
    /// Counts one value. Never allocates.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Counts a value several times. Never allocates.
    #[inline]
    pub fn record_many(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns, count);
    }

    /// Adds all that another histogram counted.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// Forgets all values and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Number of values counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The smallest value that at least a share `q` (0 to 1) of all values does not exceed, ns; 0 when empty.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        self.0.value_at_quantile(q)
    }

    /// The largest value, ns; 0 when empty.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// The mean, ns; 0 when empty.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Every cell that counted something, in ascending order: the highest value that falls into it, ns, and its count.
    pub fn cells(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|cell| (self.0.highest_equivalent(cell.value_iterated_to()), cell.count_at_value()))
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut histogram = Self::default();
        for ns in values {
            histogram.record(ns);
        }
        histogram
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.cells())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut histogram = Self::default();
        for (ns, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            if ns > 2 * MAX_NS {
                return Err(D::Error::custom(format!("{ns} ns is over an hour")));
            }
            histogram.record_many(ns, count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Every case walks histograms of 30,000 cells in a debug build.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn merging_is_counting_together(
            left in prop::collection::vec(0u64..10_000_000_000, 0..300),
            right in prop::collection::vec(0u64..10_000_000_000, 0..300),
        ) {
            let mut merged: Histogram = left.iter().copied().collect();
            merged.merge(&right.iter().copied().collect());
            let together: Histogram = left.iter().chain(&right).copied().collect();
            prop_assert_eq!(merged.count(), (left.len() + right.len()) as u64);
            prop_assert_eq!(merged.cells().collect::<Vec<_>>(), together.cells().collect::<Vec<_>>());
        }

        #[test]
        fn json_keeps_every_cell_and_quantile(values in prop::collection::vec(0u64..10_000_000_000, 1..300)) {
            let histogram: Histogram = values.iter().copied().collect();
            let text = serde_json::to_string(&histogram).unwrap();
            let back: Histogram = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back.cells().collect::<Vec<_>>(), histogram.cells().collect::<Vec<_>>());
            prop_assert_eq!(back.quantile(0.99), histogram.quantile(0.99));
        }

        #[test]
        fn quantiles_have_three_digits(mut values in prop::collection::vec(1u64..10_000_000_000, 1..300), q in 0.01f64..1.0) {
            let histogram: Histogram = values.iter().copied().collect();
            values.sort_unstable();
            let rank = (q * values.len() as f64).ceil() as usize;
            let exact = values[rank.max(1) - 1] as f64;
            let found = histogram.quantile(q) as f64;
            prop_assert!((found / exact - 1.0).abs() < 0.002, "{} for {}", found, exact);
        }
    }

    #[test]
    fn an_hour_is_the_end_of_the_scale() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        assert_eq!(histogram.count(), 1);
        assert!(histogram.max() >= MAX_NS);
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap().count(), 1);
        assert!(serde_json::from_str::<Histogram>("[[99999999999999999,1]]").is_err());
    }
}
