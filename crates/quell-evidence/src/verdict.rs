//! The strict rules: the verdict on a measured value with its interval, for a claim of each kind. One pure function.

use serde::{Deserialize, Serialize};

/// The expected outcome, by the text. A claim never changes its kind to pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Expected {
    /// A number in the text. `no_effect`: the value that would mean that nothing happened. `within`: a tolerance of the
    /// claim's own, a share of the value, narrower than a fifth.
    Number {
        /// The number.
        value: f64,
        /// The value that would mean "no effect".
        no_effect: f64,
        /// A narrower tolerance than a fifth.
        within: f64,
    },
    /// "10–20 s".
    Range {
        /// Its lower end.
        from: f64,
        /// Its upper end.
        to: f64,
    },
    /// "Close to", "nearly the same", "no change".
    Similar {
        /// The reference value.
        to: f64,
        /// Largest difference that is still similar, a share of it: 0.25 unless the text says otherwise.
        within: f64,
    },
    /// A sentence that says which is less, or more.
    Direction(Side),
    /// A limit, the text's or Quell's own.
    Bound(Side),
    /// A number in the text that follows from other rows: printed, never judged.
    Derived {
        /// The number.
        value: f64,
    },
    /// A number to which a constant of the experiment was set: printed, never judged.
    Input {
        /// The number.
        value: f64,
    },
}

/// On which side of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Less than this; of a bound: at most.
    Below(f64),
    /// More than this; of a bound: at least.
    Above(f64),
}

/// An interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl From<(f64, f64)> for Interval {
    fn from((low, high): (f64, f64)) -> Interval {
        Interval { low, high }
    }
}

impl From<Interval> for (f64, f64) {
    fn from(interval: Interval) -> (f64, f64) {
        (interval.low, interval.high)
    }
}

impl Interval {
    /// Is this in it?
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    fn width(self) -> f64 {
        self.high - self.low
    }
}

/// Relation of a run's value to the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A number, a range or a similarity came out.
    Reproduced,
    /// A number came out within a factor of two, on the same side of "no effect".
    Shape,
    /// A direction or a bound holds for the whole interval.
    Holds,
    /// None of these.
    Differs,
    /// An input, a value derived from other rows, or a run without an interval.
    NotJudged,
    /// It could not be run here.
    NotRun,
}

impl Verdict {
    /// All of them, in the order of a summary.
    pub const ALL: [Verdict; 6] =
        [Verdict::Reproduced, Verdict::Shape, Verdict::Holds, Verdict::Differs, Verdict::NotJudged, Verdict::NotRun];
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Shape => "shape",
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::NotJudged => "not judged",
            Verdict::NotRun => "not run",
        })
    }
}

/// A number is reproduced within this share of its value and of its effect.
pub const A_FIFTH: f64 = 0.2;
/// "Similar" is within this share.
pub const SIMILAR: f64 = 0.25;
/// A shape is within this factor.
const FACTOR: f64 = 2.0;
/// An interval wider than this share of value or effect bears out too much to prove anything.
const WIDEST: f64 = 0.5;

/// The verdict. Without an interval there is none, whatever the value.
#[must_use]
pub fn judge(expected: &Expected, ours: f64, interval: Option<Interval>) -> Verdict {
    let pass = |passes: bool, verdict: Verdict| if passes { verdict } else { Verdict::Differs };
    let Some(interval) = interval else { return Verdict::NotJudged };
    let is_number = ours.is_finite() && interval.low.is_finite() && interval.high.is_finite();
    match *expected {
        Expected::Derived { .. } | Expected::Input { .. } => Verdict::NotJudged,
        _ if !is_number => Verdict::Differs,
        Expected::Number { value, no_effect, within } => number(value, no_effect, within, ours, interval),
        Expected::Range { from, to } => match ours {
            _ if (from..=to).contains(&ours) => Verdict::Reproduced,
            _ => pass((from / FACTOR..=to * FACTOR).contains(&ours), Verdict::Shape),
        },
        Expected::Similar { to, within } => pass((ours - to).abs() <= within * to.abs(), Verdict::Reproduced),
        Expected::Direction(Side::Below(limit)) => pass(interval.high < limit, Verdict::Holds),
        Expected::Direction(Side::Above(limit)) => pass(interval.low > limit, Verdict::Holds),
        Expected::Bound(Side::Below(limit)) => pass(interval.high <= limit, Verdict::Holds),
        Expected::Bound(Side::Above(limit)) => pass(interval.low >= limit, Verdict::Holds),
    }
}

fn number(value: f64, no_effect: f64, within: f64, ours: f64, interval: Interval) -> Verdict {
    let (size, effect) = (value.abs(), value - no_effect);
    let narrower = size.min(effect.abs());
    let tolerance = (within * size).min(A_FIFTH * narrower);
    let bears_out = interval.contains(value) && interval.width() <= WIDEST * narrower;
    if (ours - value).abs() <= tolerance || bears_out {
        return Verdict::Reproduced;
    }
    let is_near = |ratio: f64| (1.0 / FACTOR..=FACTOR).contains(&ratio);
    let has_shape = is_near(ours / value) && is_near((ours - no_effect) / effect) && !interval.contains(no_effect);
    if has_shape { Verdict::Shape } else { Verdict::Differs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Differs, Holds, NotJudged, Reproduced, Shape};

    /// Values, half their intervals' widths, verdicts.
    type Values = &'static [(f64, f64, Verdict)];

    const fn number(value: f64, no_effect: f64) -> Expected {
        Expected::Number { value, no_effect, within: A_FIFTH }
    }

    /// By kind: value, half the interval's width, verdict. At and beyond each edge.
    #[test]
    fn each_edge_of_each_kind_has_its_verdict() {
        let similar = Expected::Similar { to: 1.0, within: SIMILAR };
        let cases: &[(Expected, Values)] = &[
            // A fifth of the value, the effect being larger.
            (number(100.0, 0.0), &[(80.0, 1.0, Reproduced), (79.9, 1.0, Shape), (120.0, 1.0, Reproduced)]),
            (
                number(100.0, 0.0),
                &[(50.0, 1.0, Shape), (49.9, 1.0, Differs), (200.0, 1.0, Shape), (200.1, 1.0, Differs)],
            ),
            // A fifth of the effect: 1.2 times is 20 % more, and 4 % of that count.
            (number(1.2, 1.0), &[(1.2399, 0.001, Reproduced), (1.2401, 0.001, Shape), (1.1601, 0.001, Reproduced)]),
            (number(1.2, 1.0), &[(1.1001, 0.001, Shape), (1.0999, 0.001, Differs), (1.4001, 0.001, Differs)]),
            // The same side, with the whole interval.
            (number(1.2, 1.0), &[(0.8, 0.01, Differs), (1.12, 0.119, Shape), (1.12, 0.1201, Differs)]),
            (number(0.5, 1.0), &[(0.3, 0.01, Shape), (0.2, 0.01, Differs), (0.76, 0.01, Differs)]),
            // The claim lies in a narrow interval: half of the effect, both sides together.
            (number(100.0, 0.0), &[(124.0, 24.9, Reproduced), (124.0, 25.1, Shape), (124.0, 23.9, Shape)]),
            (number(1.2, 1.0), &[(1.245, 0.0499, Reproduced), (1.245, 0.0501, Shape)]),
            // Values below zero.
            (number(-10.0, 0.0), &[(-12.0, 0.1, Reproduced), (-20.0, 0.1, Shape), (10.0, 0.1, Differs)]),
            (
                Expected::Range { from: 10.0, to: 20.0 },
                &[(10.0, 5.0, Reproduced), (20.0, 5.0, Reproduced), (5.0, 1.0, Shape), (4.99, 1.0, Differs)],
            ),
            (Expected::Range { from: 10.0, to: 20.0 }, &[(40.0, 1.0, Shape), (40.1, 1.0, Differs)]),
            (
                similar,
                &[(0.75, 0.0, Reproduced), (0.749, 0.0, Differs), (1.25, 0.0, Reproduced), (1.251, 0.0, Differs)],
            ),
            (Expected::Direction(Side::Below(1.0)), &[(0.9, 0.09, Holds), (0.9, 0.1, Differs), (1.1, 0.0, Differs)]),
            (Expected::Direction(Side::Above(1.0)), &[(1.1, 0.09, Holds), (1.1, 0.101, Differs), (1.0, 0.0, Differs)]),
            (Expected::Bound(Side::Below(2.0)), &[(1.5, 0.5, Holds), (1.5, 0.51, Differs), (2.0, 0.0, Holds)]),
            (Expected::Bound(Side::Above(2.0)), &[(2.5, 0.5, Holds), (2.5, 0.51, Differs)]),
            (Expected::Derived { value: 3.0 }, &[(3.0, 0.0, NotJudged), (9.0, 0.0, NotJudged)]),
            (Expected::Input { value: 3.0 }, &[(3.0, 0.0, NotJudged), (f64::NAN, 0.0, NotJudged)]),
        ];
        for (expected, values) in cases {
            for &(ours, half, verdict) in *values {
                let interval = Interval { low: ours - half, high: ours + half };
                assert_eq!(judge(expected, ours, Some(interval)), verdict, "{expected:?}: {ours} ± {half}");
            }
        }
    }

    #[test]
    fn a_claims_own_tolerance_is_narrower_than_a_fifth_and_never_wider() {
        let with = |within: f64| Expected::Number { value: 100.0, no_effect: 0.0, within };
        let of = |within: f64, ours: f64| judge(&with(within), ours, Some(Interval { low: ours, high: ours }));
        assert_eq!((of(0.02, 102.0), of(0.02, 102.1), of(0.0, 100.0)), (Reproduced, Shape, Reproduced));
        assert_eq!((of(5.0, 120.0), of(5.0, 120.1)), (Reproduced, Shape));
    }

    #[test]
    fn the_old_rules_worst_cases_differ() {
        let exact = |ours: f64| Some(Interval { low: ours, high: ours });
        let cases = [
            (number(20.0, 500e3), 138.0),
            (Expected::Similar { to: 1.0, within: SIMILAR }, 1.68),
            (number(1.2, 1.0), 0.96),
        ];
        for (expected, ours) in cases {
            assert_eq!(judge(&expected, ours, exact(ours)), Differs, "{expected:?}: {ours}");
        }
    }

    #[test]
    fn without_an_interval_and_without_a_number_nothing_is_borne_out() {
        let kinds = [
            number(20.0, 0.0),
            Expected::Range { from: 10.0, to: 20.0 },
            Expected::Similar { to: 20.0, within: SIMILAR },
            Expected::Direction(Side::Below(21.0)),
            Expected::Bound(Side::Below(21.0)),
        ];
        for expected in kinds {
            assert_eq!(judge(&expected, 20.0, None), NotJudged, "{expected:?}");
            let nowhere = Interval { low: f64::NAN, high: f64::NAN };
            assert_eq!(judge(&expected, f64::NAN, Some(nowhere)), Differs, "{expected:?}");
            assert_eq!(judge(&expected, 20.0, Some(nowhere)), Differs, "{expected:?}");
        }
    }
}
