//! A claim with the result of a run.

use serde::{Serialize, Serializer};

use crate::claim::Claim;
use crate::measure::{Found, Measure};
use crate::verdict::{Expected, Interval, Verdict, judge};

/// A claim with the result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The claim.
    pub claim: &'static Claim,
    /// Our value; none if it was not run.
    pub ours: Option<f64>,
    /// Its 95 % interval; none of a single run.
    pub interval: Option<Interval>,
    /// The verdict.
    pub verdict: Verdict,
    /// A note for the reader about this run; for a row that was not run, the missing part; for one that differs, the
    /// reason or "unexplained".
    pub note: String,
}

impl Row {
    /// Judges a result.
    #[must_use]
    pub fn of(claim: &'static Claim, measure: &Measure) -> Row {
        let (ours, interval) = (measure.found.value(), measure.found.interval());
        let Some(value) = ours else {
            let missing = if let Found::Missing(missing) = &measure.found { missing } else { "no value" };
            return Row::not_run(claim, missing);
        };
        let verdict = judge(&claim.expected, value, interval);
        let mut note = measure.note.clone();
        if matches!(verdict, Verdict::Differs | Verdict::Shape) {
            let reason = claim.known_difference.as_deref().unwrap_or("unexplained");
            note = if note.is_empty() { reason.to_owned() } else { format!("{reason}; {note}") };
        }
        Row { claim, ours, interval, verdict, note }
    }

    /// A row that could not be run, and the missing part.
    #[must_use]
    pub fn not_run(claim: &'static Claim, missing: impl Into<String>) -> Row {
        Row { claim, ours: None, interval: None, verdict: Verdict::NotRun, note: missing.into() }
    }

    /// Ours as a multiple of the number that was expected, where that is one.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let expected = match self.claim.expected {
            Expected::Number { value, .. } | Expected::Derived { value } | Expected::Input { value } => value,
            Expected::Similar { to, .. } => to,
            Expected::Range { .. } | Expected::Direction(_) | Expected::Bound(_) => return None,
        };
        self.ours.map(|ours| ours / expected)
    }

    /// Does it differ without a known reason?
    #[must_use]
    pub fn surprises(&self) -> bool {
        self.verdict == Verdict::Differs && self.claim.known_difference.is_none()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'a> {
            #[serde(flatten)]
            claim: &'a Claim,
            ours: Option<f64>,
            interval: Option<Interval>,
            ratio: Option<f64>,
            verdict: Verdict,
            note: &'a str,
        }
        let Row { claim, ours, interval, verdict, note } = self;
        let (ours, interval, verdict) = (*ours, *interval, *verdict);
        Flat { claim, ours, interval, ratio: self.ratio(), verdict, note }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Source;

    fn claim(known: Option<&str>) -> &'static Claim {
        Box::leak(Box::new(Claim {
            id: "x.y".into(),
            expected: Expected::Number { value: 0.6, no_effect: 1.0, within: 0.2 },
            statement: "s".into(),
            source: Source { text: "t".into(), line: Some(7), place: "p".into() },
            quotation: Some("q".into()),
            known_difference: known.map(str::to_owned),
            missing: None,
        }))
    }

    fn row(known: Option<&str>, value: f64, note: &str) -> Row {
        let found = Found::Exact(value);
        Row::of(claim(known), &Measure { id: "x.y".into(), found, note: note.into() })
    }

    #[test]
    fn a_difference_says_why_or_that_it_is_unexplained() {
        let unknown = row(None, 2.0, "3 s");
        assert_eq!((unknown.note.as_str(), unknown.surprises()), ("unexplained; 3 s", true));
        assert_eq!(row(None, 0.75, "").note, "unexplained", "a shape where a number was claimed");
        assert_eq!(row(None, 0.6, "").note, "");
        let known = row(Some("another kernel"), 2.0, "");
        assert_eq!((known.note.as_str(), known.surprises()), ("another kernel", false));
    }

    #[test]
    fn a_row_for_programs_has_the_claim_and_what_came_out() {
        let json = serde_json::to_value(row(None, 0.6, "")).unwrap();
        for (field, value) in [
            ("id", "x.y".into()),
            ("kind", "number".into()),
            ("quotation", "q".into()),
            ("verdict", "reproduced".into()),
            ("ours", 0.6.into()),
            ("interval", serde_json::json!([0.6, 0.6])),
        ] {
            assert_eq!(json[field], value, "{field}");
        }
        assert_eq!((&json["source"]["text"], &json["source"]["line"]), (&"t".into(), &7.into()));
        let missing = Measure { id: "x.y".into(), found: Found::Missing("3 CPUs".into()), note: String::new() };
        let row = Row::of(claim(None), &missing);
        assert_eq!((row.verdict, row.ratio(), row.note.as_str()), (Verdict::NotRun, None, "3 CPUs"));
    }
}
