use serde::Serialize;

/// A statement that a run can bear out or refute.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Its name: the topic's id, a dot, and what of it.
    pub id: &'static str,
    /// The statement, in one line.
    pub statement: &'static str,
    /// Who says so, and where.
    pub source: Source,
    /// What should come out.
    pub expected: Expected,
    /// How far off still counts as reproduced, and why.
    pub tolerance: Tolerance,
    /// The value that would mean "no effect"; a verdict of *shape* wants both values on the same side of it.
    pub no_effect: f64,
    /// Why its number is not reproduced, where that is known.
    pub known_difference: Option<&'static str>,
}

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Source {
    /// A paper's file name without ending, or `quell`.
    pub text: &'static str,
    /// Section, table or figure, and the sentence's line; for Quell's own claims, the document.
    pub place: &'static str,
}

/// What should come out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// This number, which stands in the paper's text.
    Number(f64),
    /// This number, computed from numbers in the paper's text or from a definition; the statement says how.
    Computed(f64),
    /// A sentence that says: below this.
    Below(f64),
    /// A bound that Quell sets itself: at most this.
    AtMost(f64),
}

impl Expected {
    /// The number in it.
    #[must_use]
    pub fn value(self) -> f64 {
        match self {
            Expected::Number(value) | Expected::Computed(value) | Expected::Below(value) | Expected::AtMost(value) => {
                value
            }
        }
    }
}

/// How far off still counts as reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tolerance {
    /// As a share of the expected value.
    pub relative: f64,
    /// Why this much.
    pub reason: &'static str,
}
