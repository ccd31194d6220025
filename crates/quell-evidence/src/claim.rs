//! A claim as data: the expected value, its source, and known differences.

use serde::{Deserialize, Serialize};

use crate::verdict::{A_FIFTH, Expected, SIMILAR, Side};

/// A statement that a run can bear out or refute.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Its name: the topic's id, a dot, and its part.
    pub id: String,
    /// The expected value.
    #[serde(flatten)]
    pub expected: Expected,
    /// The measured quantity, in one line, with its unit.
    pub statement: String,
    /// The source.
    pub source: Source,
    /// The text's own words, as short as the claim needs.
    pub quotation: Option<String>,
    /// Reason for a known difference. Only then may it differ.
    pub known_difference: Option<String>,
    /// Reason for the lack of an experiment, if there is none.
    pub missing: Option<String>,
}

/// The origin of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// A paper's file name without ending, `linux`, a theory, or `quell`.
    pub text: String,
    /// The line of that file.
    pub line: Option<u32>,
    /// Section, table or figure; for Quell's own claims, the document.
    pub place: String,
}

impl Source {
    /// Does Quell say so itself?
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.text == "quell"
    }
}

/// A file of claims.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// The topic.
    topic: String,
    /// Its subject.
    pub title: String,
    /// The text of claims that name none.
    text: String,
    #[serde(rename = "claim")]
    claims: Vec<Written>,
}

/// A claim as it is written down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    kind: Kind,
    what: String,
    text: Option<String>,
    line: Option<u32>,
    place: String,
    quotation: Option<String>,
    value: Option<f64>,
    no_effect: Option<f64>,
    within: Option<f64>,
    from: Option<f64>,
    to: Option<f64>,
    below: Option<f64>,
    above: Option<f64>,
    known: Option<String>,
    missing: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Number,
    Range,
    Similar,
    Direction,
    Bound,
    Derived,
    Input,
}

impl File {
    /// The claims, each under its topic's id. Error: the faulty claim and the reason.
    pub fn claims(self) -> Result<(String, Vec<Claim>), String> {
        let File { topic, text, claims, .. } = self;
        let claim = |written: Written| {
            let id = format!("{topic}.{}", written.id);
            written.claim(&id, &text).map_err(|why| format!("{id}: {why}"))
        };
        let claims = claims.into_iter().map(claim).collect::<Result<_, _>>()?;
        Ok((topic, claims))
    }
}

impl Written {
    fn claim(self, id: &str, text: &str) -> Result<Claim, String> {
        let expected = self.expected()?;
        let source = Source { text: self.text.unwrap_or_else(|| text.to_owned()), line: self.line, place: self.place };
        let line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Claim {
            id: id.to_owned(),
            expected,
            statement: line(self.what),
            source,
            quotation: self.quotation,
            known_difference: self.known.map(line),
            missing: self.missing.map(line),
        })
    }

    /// Each kind has its own keys, and no others.
    fn expected(&self) -> Result<Expected, String> {
        let has = [
            ("value", self.value),
            ("no_effect", self.no_effect),
            ("within", self.within),
            ("from", self.from),
            ("to", self.to),
            ("below", self.below),
            ("above", self.above),
        ];
        let may: &[&str] = match self.kind {
            Kind::Number => &["value", "no_effect", "within"],
            Kind::Range => &["from", "to"],
            Kind::Similar => &["to", "within"],
            Kind::Direction | Kind::Bound => &["below", "above"],
            Kind::Derived | Kind::Input => &["value"],
        };
        if let Some((key, _)) = has.iter().find(|(key, value)| value.is_some() && !may.contains(key)) {
            return Err(format!("a {:?} has no '{key}'", self.kind));
        }
        let needs = |key: &str, value: Option<f64>| value.ok_or(format!("a {:?} needs '{key}'", self.kind));
        let side = || match (self.below, self.above) {
            (Some(limit), None) => Ok(Side::Below(limit)),
            (None, Some(limit)) => Ok(Side::Above(limit)),
            _ => Err(format!("a {:?} needs 'below' or 'above'", self.kind)),
        };
        match self.kind {
            Kind::Number => {
                let (value, no_effect) = (needs("value", self.value)?, needs("no_effect", self.no_effect)?);
                let within = self.within.unwrap_or(A_FIFTH);
                if value == 0.0 || value == no_effect || !no_effect.is_finite() || !(0.0..=A_FIFTH).contains(&within) {
                    return Err("a number is neither zero nor without effect, and within a fifth at most".to_owned());
                }
                Ok(Expected::Number { value, no_effect, within })
            }
            Kind::Range => {
                let (from, to) = (needs("from", self.from)?, needs("to", self.to)?);
                if !(0.0 < from && from < to) {
                    return Err("a range goes from above zero upwards".to_owned());
                }
                Ok(Expected::Range { from, to })
            }
            Kind::Similar => {
                Ok(Expected::Similar { to: self.to.unwrap_or(1.0), within: self.within.unwrap_or(SIMILAR) })
            }
            Kind::Direction => Ok(Expected::Direction(side()?)),
            Kind::Bound => Ok(Expected::Bound(side()?)),
            Kind::Derived => Ok(Expected::Derived { value: needs("value", self.value)? }),
            Kind::Input => Ok(Expected::Input { value: needs("value", self.value)? }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(claim: &str) -> Result<Claim, String> {
        let text =
            format!("topic = 't'\ntitle = 'x'\ntext = 'p'\n[[claim]]\nid = 'c'\nplace = '§1'\nwhat = 'w'\n{claim}");
        let file: File = toml::from_str(&text).map_err(|error| error.to_string())?;
        Ok(file.claims()?.1.remove(0))
    }

    #[test]
    fn a_claim_is_read_with_what_its_kind_needs() {
        let claim = read("kind = 'number'\nvalue = 52\nno_effect = 580e3\nline = 27\nquotation = 'to 52'").unwrap();
        assert_eq!(claim.expected, Expected::Number { value: 52.0, no_effect: 580e3, within: 0.2 });
        assert_eq!((claim.id.as_str(), claim.source.text.as_str(), claim.source.line), ("t.c", "p", Some(27)));
        assert_eq!(read("kind = 'similar'").unwrap().expected, Expected::Similar { to: 1.0, within: 0.25 });
        assert_eq!(read("kind = 'bound'\nbelow = 2").unwrap().expected, Expected::Bound(Side::Below(2.0)));
        let json = serde_json::to_value(&claim).unwrap();
        assert_eq!((&json["kind"], &json["source"]["line"]), (&"number".into(), &27.into()));
    }

    #[test]
    fn a_claim_without_what_its_kind_needs_or_with_more_is_refused() {
        for (claim, why) in [
            ("kind = 'number'\nvalue = 2", "no_effect"),
            ("kind = 'number'\nvalue = 2\nno_effect = 2", "without effect"),
            ("kind = 'number'\nvalue = 2\nno_effect = 1\nwithin = 0.5", "a fifth"),
            ("kind = 'range'\nfrom = 2\nto = 1", "upwards"),
            ("kind = 'direction'", "below"),
            ("kind = 'direction'\nbelow = 1\nabove = 1", "below"),
            ("kind = 'similar'\nvalue = 1", "no 'value'"),
            ("kind = 'opinion'", "opinion"),
        ] {
            let error = read(claim).unwrap_err();
            assert!(error.contains(why) || error.contains("unknown variant"), "{claim}: {error}");
        }
    }
}
