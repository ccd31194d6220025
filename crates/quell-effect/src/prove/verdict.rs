//! What may be said.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::design::words;

/// The answer of an experiment, so far or at its end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// It is lower with the change.
    Helps,
    /// It is higher with the change.
    Harms,
    /// It differs by this share at most, which does not matter.
    NoDifference {
        /// The share.
        larger_than: f64,
    },
    /// Neither.
    CannotTell {
        /// Time after which it probably can, s; absent where that is not known.
        more_seconds: Option<f64>,
    },
}

impl Verdict {
    /// Does it end the experiment?
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Verdict::CannotTell { .. })
    }

    /// In words: `helps`, `no difference larger than 8 %`.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Verdict::Helps => "helps".into(),
            Verdict::Harms => "harms".into(),
            Verdict::NoDifference { larger_than } => format!("no difference larger than {:.0} %", 100.0 * larger_than),
            Verdict::CannotTell { more_seconds: None } => "cannot tell".into(),
            Verdict::CannotTell { more_seconds: Some(more) } if more < 90.0 => {
                format!("cannot tell yet: about {} more", words(more.max(1.0)))
            }
            Verdict::CannotTell { more_seconds: Some(more) } => {
                format!("cannot tell yet: about {:.0} more minutes", (more / 60.0).ceil())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_words() {
        for (verdict, words) in [
            (Verdict::Helps, "helps"),
            (Verdict::Harms, "harms"),
            (Verdict::NoDifference { larger_than: 0.083 }, "no difference larger than 8 %"),
            (Verdict::CannotTell { more_seconds: None }, "cannot tell"),
            (Verdict::CannotTell { more_seconds: Some(0.0) }, "cannot tell yet: about 1 s more"),
            (Verdict::CannotTell { more_seconds: Some(41.0) }, "cannot tell yet: about 41 s more"),
            (Verdict::CannotTell { more_seconds: Some(300.0) }, "cannot tell yet: about 5 more minutes"),
        ] {
            assert_eq!(verdict.words(), words);
            assert_eq!(verdict.is_final(), !words.starts_with("cannot tell"));
        }
    }
}
