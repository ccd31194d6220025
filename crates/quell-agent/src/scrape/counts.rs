//! Two readings of a histogram, one less the other.

/// Bounds that a histogram has at most; those beyond are left out.
const MOST: usize = 1024;
/// A bucket is taken to hold its requests evenly, in so many parts.
const PARTS: u64 = 4;

/// A histogram's requests up to each bound, in nanoseconds; [`u64::MAX`] is no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<(u64, u64)>);

impl Counts {
    /// Adds the requests up to a bound, of one label set.
    pub fn add(&mut self, bound: u64, count: u64) {
        match self.0.binary_search_by_key(&bound, |bucket| bucket.0) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(count),
            Err(at) if self.0.len() < MOST => self.0.insert(at, (bound, count)),
            Err(_) => {}
        }
    }

    /// Has it no bucket?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Requests up to each bound, ascending.
    #[cfg(test)]
    pub fn cumulative(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// The requests since an earlier reading, as pairs of a latency and how many had it; None: it began anew meanwhile, or has
    /// other buckets.
    #[must_use]
    pub fn since(&self, before: &Counts) -> Option<Vec<(u64, u64)>> {
        let is_same = self.0.len() == before.0.len() && self.0.iter().zip(&before.0).all(|(now, then)| now.0 == then.0);
        if !is_same {
            return None;
        }
        let mut buckets = Vec::new();
        let (mut lower, mut below) = (0, 0);
        for (&(bound, now), &(_, then)) in self.0.iter().zip(&before.0) {
            let upto = now.checked_sub(then)?;
            let count = upto.checked_sub(below)?;
            // Beyond the last bound all that is known is: beyond it.
            if bound == u64::MAX {
                buckets.extend((count > 0).then_some((lower + 1, count)));
            } else {
                let part = |of: u64, at: u64| (u128::from(of) * u128::from(at) / u128::from(PARTS)) as u64;
                let parts =
                    (1..=PARTS).map(|at| (lower + part(bound - lower, at), part(count, at) - part(count, at - 1)));
                buckets.extend(parts.filter(|(_, count)| *count > 0));
            }
            (lower, below) = (bound, upto);
        }
        Some(buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(buckets: &[(u64, u64)]) -> Counts {
        let mut counts = Counts::default();
        buckets.iter().for_each(|&(bound, count)| counts.add(bound, count));
        counts
    }

    #[test]
    fn requests_between_two_readings_are_those_of_the_second_less_the_first() {
        let before = counts(&[(1000, 10), (2000, 12), (u64::MAX, 12)]);
        let after = counts(&[(1000, 14), (2000, 16), (u64::MAX, 18)]);
        let since = after.since(&before).unwrap();
        assert_eq!(since, [(250, 1), (500, 1), (750, 1), (1000, 1), (2001, 2)]);
        assert_eq!(after.since(&after).unwrap(), []);
    }

    #[test]
    fn a_service_that_began_anew_or_has_other_buckets_says_nothing_of_the_time_between() {
        let before = counts(&[(1000, 10), (u64::MAX, 12)]);
        for after in [counts(&[(1000, 3), (u64::MAX, 20)]), counts(&[(1000, 10), (2000, 12), (u64::MAX, 12)])] {
            assert_eq!(after.since(&before), None, "{after:?}");
        }
        assert_eq!(counts(&[(1000, 15), (u64::MAX, 13)]).since(&before), None, "no histogram: fewer up to more");
    }

    proptest! {
        #[test]
        fn none_is_lost(more in proptest::collection::vec(0u64..1000, 1..20)) {
            let at = |add: &[u64]| {
                let mut sum = 0;
                let counted = add.iter().zip(1..).map(|(more, bound)| { sum += more; (bound * 100, 5 + sum) });
                counts(&counted.collect::<Vec<_>>())
            };
            let since = at(&more).since(&at(&vec![0; more.len()])).unwrap();
            prop_assert_eq!(since.iter().map(|(_, count)| count).sum::<u64>(), more.iter().sum::<u64>());
            prop_assert!(since.iter().all(|(latency, _)| *latency <= more.len() as u64 * 100));
        }
    }
}
