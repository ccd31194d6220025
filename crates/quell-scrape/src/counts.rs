//! Two readings of a histogram, one less the other, and the quantile between.

use quell_model::Nanos;

/// Bounds that a histogram has at most; those beyond are left out.
const MOST: usize = 1024;

/// A histogram's requests up to each bound, in nanoseconds; [`u64::MAX`] is no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<(u64, u64)>);

impl Counts {
    /// Adds the requests up to a bound, of one label set. Of two bounds in one nanosecond the larger count is that of the
    /// larger bound.
    pub fn add(&mut self, bound: u64, count: u64) {
        match self.0.binary_search_by_key(&bound, |bucket| bucket.0) {
            Ok(at) => self.0[at].1 = self.0[at].1.max(count),
            Err(at) if self.0.len() < MOST => self.0.insert(at, (bound, count)),
            Err(_) => {}
        }
    }

    /// Adds another label set's. False, with nothing added, if its bounds are others: what is between two bounds of the one is
    /// not known of the other.
    #[must_use]
    pub fn add_all(&mut self, other: &Counts) -> bool {
        let same = self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(own, other)| own.0 == other.0);
        if same {
            self.0.iter_mut().zip(&other.0).for_each(|(own, other)| own.1 = own.1.saturating_add(other.1));
        }
        same
    }

    /// Number of bounds.
    #[must_use]
    pub fn bounds(&self) -> usize {
        self.0.len()
    }

    /// Requests up to each bound, ascending.
    #[must_use]
    pub fn cumulative(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// The requests since an earlier reading; None: it began anew meanwhile, or has other buckets.
    #[must_use]
    pub fn since(&self, before: &Counts) -> Option<Counts> {
        let is_same = self.0.len() == before.0.len() && self.0.iter().zip(&before.0).all(|(now, then)| now.0 == then.0);
        if !is_same {
            return None;
        }
        let mut below = 0;
        let mut since = Vec::with_capacity(self.0.len());
        for (&(bound, now), &(_, then)) in self.0.iter().zip(&before.0) {
            let upto = now.checked_sub(then).filter(|upto| *upto >= below)?;
            since.push((bound, upto));
            below = upto;
        }
        Some(Counts(since))
    }

    /// Number of requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.0.last().map_or(0, |bucket| bucket.1)
    }

    /// The latency at a quantile as Prometheus has it (`histogram_quantile`): requests lie evenly in their bucket, the first of
    /// which begins at zero. Beyond the last bound all that is known is: beyond it. None: there was no request.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let requests = self.requests();
        let rank = requests as f64 * quantile;
        let at = self.0.iter().position(|&(_, upto)| upto as f64 >= rank).filter(|_| requests > 0)?;
        let (lower, below) = if at == 0 { (0, 0) } else { self.0[at - 1] };
        let (upper, upto) = self.0[at];
        if upper == u64::MAX {
            return Some(Nanos(lower.saturating_add(1)));
        }
        let part = (rank - below as f64) / (upto - below).max(1) as f64;
        Some(Nanos(lower + ((upper - lower) as f64 * part.clamp(0.0, 1.0)) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

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
        assert_eq!(since.cumulative(), [(1000, 4), (2000, 4), (u64::MAX, 6)]);
        assert_eq!(
            (since.requests(), since.quantile(0.5), since.quantile(0.9)),
            (6, Some(Nanos(750)), Some(Nanos(2001)))
        );
        assert_eq!(after.since(&after).unwrap().quantile(0.5), None);
    }

    #[test]
    fn a_quantile_is_that_of_prometheus() {
        // histogram_quantile(0.99, …) of these is 0.0075.
        let found = counts(&[(MS, 900), (5 * MS, 985), (10 * MS, 995), (u64::MAX, 1000)]);
        assert_eq!(found.quantile(0.99), Some(Nanos(7_500_000)));
        assert_eq!(found.quantile(0.45), Some(Nanos(MS / 2)), "the first bucket begins at zero");
        assert_eq!(found.quantile(0.999), Some(Nanos(10 * MS + 1)), "more than the last bound: an SLO of it is missed");
        assert_eq!(found.quantile(0.985), Some(Nanos(5 * MS)));
        assert_eq!(counts(&[(MS, 0), (2 * MS, 10), (u64::MAX, 10)]).quantile(0.5), Some(Nanos(MS + MS / 2)));
    }

    #[test]
    fn label_sets_with_other_bounds_are_not_added() {
        let mut sum = counts(&[(1, 2), (3, 4)]);
        assert!(sum.add_all(&counts(&[(1, 1), (3, 3)])));
        assert_eq!(sum, counts(&[(1, 3), (3, 7)]));
        for other in [counts(&[(1, 1)]), counts(&[(1, 1), (2, 3)]), counts(&[(1, 1), (3, 3), (4, 4)])] {
            assert!(!sum.add_all(&other));
        }
        assert_eq!(sum, counts(&[(1, 3), (3, 7)]));
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
        fn none_is_lost_and_quantiles_ascend_within_the_bounds(more in proptest::collection::vec(0u64..1000, 1..20), one in 0.0f64..1.0, other in 0.0f64..1.0) {
            let at = |add: &[u64]| {
                let mut sum = 0;
                let counted = add.iter().zip(1..).map(|(more, bound)| { sum += more; (bound * 100, 5 + sum) });
                counts(&counted.collect::<Vec<_>>())
            };
            let since = at(&more).since(&at(&vec![0; more.len()])).unwrap();
            prop_assert_eq!(since.requests(), more.iter().sum::<u64>());
            let (low, high) = (since.quantile(one.min(other)), since.quantile(one.max(other)));
            prop_assert!(low <= high);
            prop_assert!(high.is_none_or(|high| high.0 <= more.len() as u64 * 100));
        }
    }
}
