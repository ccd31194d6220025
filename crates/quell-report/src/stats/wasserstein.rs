//! The distance between two distributions of durations.

/// Wasserstein's distance of order 1 between two samples, which are sorted: the area between their distribution functions, in
/// the samples' unit. The samples may be of different sizes; without one it is not a number.
#[must_use]
pub fn wasserstein(one: &mut [u64], other: &mut [u64]) -> f64 {
    if one.is_empty() || other.is_empty() {
        return f64::NAN;
    }
    one.sort_unstable();
    other.sort_unstable();
    let (mut at, mut beside, mut area) = (0, 0, 0.0);
    let mut from = one[0].min(other[0]);
    while at < one.len() || beside < other.len() {
        let next = |sample: &[u64], at: usize| sample.get(at).copied().unwrap_or(u64::MAX);
        let to = next(one, at).min(next(other, beside));
        let gap = at as f64 / one.len() as f64 - beside as f64 / other.len() as f64;
        area += gap.abs() * (to - from) as f64;
        from = to;
        at += one[at..].iter().take_while(|&&value| value == to).count();
        beside += other[beside..].iter().take_while(|&&value| value == to).count();
    }
    area
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_the_area_between_the_distribution_functions() {
        assert_eq!(wasserstein(&mut [1, 2, 3], &mut [3, 2, 1]), 0.0);
        assert_eq!(wasserstein(&mut [0, 10], &mut [5, 15]), 5.0);
        assert_eq!(wasserstein(&mut [0], &mut [0, 8]), 4.0, "samples of different sizes");
        assert!(wasserstein(&mut [], &mut [1]).is_nan());
    }

    proptest! {
        /// Of samples of one size it is the mean distance of those of the same rank.
        #[test]
        fn of_equal_sizes_it_is_the_mean_distance_by_rank(pairs in prop::collection::vec((0u64..1_000, 0u64..1_000), 1..50)) {
            let (mut one, mut other): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
            let area = wasserstein(&mut one, &mut other);
            let by_rank = one.iter().zip(&other).map(|(a, b)| a.abs_diff(*b)).sum::<u64>() as f64 / one.len() as f64;
            prop_assert!((area - by_rank).abs() < 1e-9, "{area} {by_rank}");
        }
    }
}
