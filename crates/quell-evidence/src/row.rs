use serde::{Serialize, Serializer};

use crate::claim::{Claim, Expected};

/// Same order of magnitude: within half a decade.
const HALF_A_DECADE: f64 = 3.162_277_66;

/// An interval with more than this share of the claimed value on each side would bear out too much to prove anything.
const WIDEST: f64 = 0.05;

/// How a run's value stands to the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the stated tolerance, or within Quell's own bound; of an estimate also: its interval has the claim in it.
    Reproduced,
    /// Same direction and order of magnitude; all that a sentence without a number can be.
    Shape,
    /// Neither.
    Differs,
    /// It could not be run here.
    NotRun,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Shape => "shape",
            Verdict::Differs => "differs",
            Verdict::NotRun => "not run",
        })
    }
}

/// A claim with what a run made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The claim.
    pub claim: &'static Claim,
    /// Our value; none if it was not run.
    pub ours: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// What the reader should know about this run; for a row that was not run, what is missing; for one whose number
    /// was not reproduced, the reason or "unexplained".
    pub note: String,
}

impl Row {
    /// Judges a measured value.
    #[must_use]
    pub fn measured(claim: &'static Claim, ours: f64, note: impl Into<String>) -> Row {
        Row::judged(claim, ours, judge(claim, ours), note.into())
    }

    /// Judges an estimate with a confidence interval, `half_width` on each side. It is also reproduced if the claimed
    /// value is in the interval, and the interval is no wider than 5 % of that value on each side.
    #[must_use]
    pub fn estimated(claim: &'static Claim, ours: f64, half_width: f64, note: impl Into<String>) -> Row {
        let claimed = claim.expected.value();
        let is_inside = (ours - claimed).abs() <= half_width && half_width <= WIDEST * claimed.abs();
        let verdict = if is_inside { Verdict::Reproduced } else { judge(claim, ours) };
        Row::judged(claim, ours, verdict, note.into())
    }

    fn judged(claim: &'static Claim, ours: f64, verdict: Verdict, mut note: String) -> Row {
        let has_number = matches!(claim.expected, Expected::Number(_) | Expected::Computed(_));
        if verdict == Verdict::Differs || verdict == Verdict::Shape && has_number {
            let reason = claim.known_difference.unwrap_or("unexplained");
            note = if note.is_empty() { reason.to_owned() } else { format!("{reason}; {note}") };
        }
        Row { claim, ours: Some(ours), verdict, note }
    }

    /// A row that could not be run, and what is missing.
    #[must_use]
    pub fn not_run(claim: &'static Claim, missing: impl Into<String>) -> Row {
        Row { claim, ours: None, verdict: Verdict::NotRun, note: missing.into() }
    }

    /// Ours as a multiple of what was expected.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let expected = self.claim.expected.value();
        self.ours.filter(|_| expected != 0.0).map(|ours| ours / expected)
    }
}

fn judge(claim: &Claim, ours: f64) -> Verdict {
    let holds = |yes: bool, verdict: Verdict| if yes { verdict } else { Verdict::Differs };
    match claim.expected {
        _ if !ours.is_finite() => Verdict::Differs,
        Expected::Below(bound) => holds(ours < bound, Verdict::Shape),
        Expected::AtMost(bound) => holds(ours <= bound, Verdict::Reproduced),
        Expected::Number(value) | Expected::Computed(value) => {
            if (ours - value).abs() <= claim.tolerance.relative * value.abs() {
                return Verdict::Reproduced;
            }
            let effect = (ours - claim.no_effect) / (value - claim.no_effect);
            holds((1.0 / HALF_A_DECADE..=HALF_A_DECADE).contains(&effect), Verdict::Shape)
        }
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'a> {
            #[serde(flatten)]
            claim: &'a Claim,
            ours: Option<f64>,
            ratio: Option<f64>,
            verdict: Verdict,
            note: &'a str,
        }
        let flat =
            Flat { claim: self.claim, ours: self.ours, ratio: self.ratio(), verdict: self.verdict, note: &self.note };
        flat.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Source, Tolerance};

    const fn claim(expected: Expected, known_difference: Option<&'static str>) -> Claim {
        Claim {
            id: "x.y",
            statement: "s",
            source: Source { text: "t", place: "p" },
            expected,
            tolerance: Tolerance { relative: 0.03, reason: "r" },
            no_effect: 1.0,
            known_difference,
        }
    }

    #[test]
    fn verdicts_follow_the_definitions() {
        static NUMBER: Claim = claim(Expected::Number(0.6), None);
        let cases = [
            (0.6, Verdict::Reproduced),
            (0.6179, Verdict::Reproduced),
            (0.62, Verdict::Shape),
            (0.9, Verdict::Differs),
            (1.0, Verdict::Differs),
            (1.4, Verdict::Differs),
            (f64::NAN, Verdict::Differs),
        ];
        for (ours, verdict) in cases {
            assert_eq!(Row::measured(&NUMBER, ours, "").verdict, verdict, "{ours}");
        }
        static SENTENCE: Claim = claim(Expected::Below(1.0), None);
        assert_eq!(Row::measured(&SENTENCE, 0.99, "").verdict, Verdict::Shape);
        assert_eq!(Row::measured(&SENTENCE, 1.0, "").verdict, Verdict::Differs);
        static BOUND: Claim = claim(Expected::AtMost(1.0), None);
        assert_eq!(Row::measured(&BOUND, 1.0, "").verdict, Verdict::Reproduced);
        assert_eq!(Row::measured(&BOUND, 1.1, "").verdict, Verdict::Differs);
    }

    #[test]
    fn an_estimate_may_also_have_the_claim_within_its_interval() {
        static LATENCY: Claim = claim(Expected::Computed(10.0), None);
        let cases = [
            (10.2, 0.01, Verdict::Reproduced),
            (10.4, 0.45, Verdict::Reproduced),
            (10.4, 0.35, Verdict::Shape),
            (10.4, 0.55, Verdict::Shape),
            (f64::NAN, 0.1, Verdict::Differs),
        ];
        for (ours, half_width, verdict) in cases {
            assert_eq!(Row::estimated(&LATENCY, ours, half_width, "").verdict, verdict, "{ours} ± {half_width}");
        }
    }

    #[test]
    fn a_difference_says_why_or_that_nobody_knows() {
        static UNKNOWN: Claim = claim(Expected::Number(0.6), None);
        assert_eq!(Row::measured(&UNKNOWN, 2.0, "").note, "unexplained");
        assert_eq!(Row::measured(&UNKNOWN, 0.65, "").note, "unexplained", "a shape where a number was claimed");
        assert_eq!(Row::measured(&UNKNOWN, 0.6, "").note, "");
        static SENTENCE: Claim = claim(Expected::Below(0.6), None);
        assert_eq!(Row::measured(&SENTENCE, 0.5, "").note, "", "a sentence without a number can be no more");
        static KNOWN: Claim = claim(Expected::Number(0.6), Some("another kernel"));
        assert_eq!(Row::measured(&KNOWN, 2.0, "3 s").note, "another kernel; 3 s");
        let row = Row::not_run(&KNOWN, "needs 3 CPUs");
        assert_eq!((row.verdict, row.ratio()), (Verdict::NotRun, None));
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!((&json["id"], &json["verdict"]), (&"x.y".into(), &"not-run".into()));
    }
}
