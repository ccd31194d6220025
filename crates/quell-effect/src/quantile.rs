//! Quantiles that a sample is large enough for.
//!
//! With fewer than ten values beyond it a sample's quantile is a matter of a few accidents. Such a one is not shown: the highest
//! one that is sound takes its place, with the number of values.

/// The quantiles that are shown, ascending.
pub const LEVELS: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// Values beyond a quantile that make it sound.
pub const BEYOND: f64 = 10.0;

/// Values that a sample needs for this quantile: 1,000 for p99.
#[must_use]
pub fn needed(quantile: f64) -> u64 {
    (BEYOND / (1.0 - quantile)).round() as u64
}

/// The highest of [`LEVELS`] up to the wanted one that this number of values is enough for.
#[must_use]
pub fn highest_sound(wanted: f64, values: u64) -> Option<f64> {
    LEVELS.into_iter().rev().find(|&level| level <= wanted && needed(level) <= values)
}

/// Its name: `p99`, `p99.9`.
#[must_use]
pub fn name(quantile: f64) -> String {
    // Whole thousandths: 99.9 and not 99.90000000000001.
    format!("p{}", (quantile * 1e5).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_values_are_beyond_a_sound_quantile() {
        assert_eq!(LEVELS.map(needed), [20, 100, 1_000, 10_000]);
        for (wanted, values, sound) in [
            (0.99, 0, None),
            (0.99, 19, None),
            (0.99, 20, Some(0.5)),
            (0.99, 99, Some(0.5)),
            (0.99, 100, Some(0.9)),
            (0.99, 999, Some(0.9)),
            (0.99, 1_000, Some(0.99)),
            (0.99, 1_000_000, Some(0.99)),
            (0.999, 9_999, Some(0.99)),
            (0.999, 10_000, Some(0.999)),
            (0.4, 1_000, None),
        ] {
            assert_eq!(highest_sound(wanted, values), sound, "{wanted} of {values}");
        }
        assert_eq!(LEVELS.map(name), ["p50", "p90", "p99", "p99.9"]);
    }
}
