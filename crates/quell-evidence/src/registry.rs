//! The topics of `quell-lab paper`: a file of claims a topic, one line here.

use std::sync::LazyLock;

use crate::claim::{Claim, File};

/// A set of claims that one run bears out or refutes.
#[derive(Clone, Debug, PartialEq)]
pub struct Topic {
    /// Its name after `quell-lab paper`.
    pub id: String,
    /// Its subject, in one line.
    pub title: String,
    /// Its claims, in the order of their rows.
    pub claims: Vec<Claim>,
}

const FILES: [&str; 11] = [
    include_str!("../../../papers/gap/claims.toml"),
    include_str!("../../../papers/queueing/claims.toml"),
    include_str!("../../../papers/fairness/claims.toml"),
    include_str!("../../../papers/rkube/claims.toml"),
    include_str!("../../../papers/caladan/claims.toml"),
    include_str!("../../../papers/his/claims.toml"),
    include_str!("../../../papers/edgeiso/claims.toml"),
    include_str!("../../../papers/trials/claims.toml"),
    include_str!("../../../papers/vas/claims.toml"),
    include_str!("../../../papers/dasec/claims.toml"),
    include_str!("../../../papers/sdc/claims.toml"),
];

static TOPICS: LazyLock<Vec<Topic>> =
    LazyLock::new(|| FILES.iter().map(|text| Topic::read(text).expect("a test reads these files")).collect());

/// Everything that can be reproduced.
#[must_use]
pub fn topics() -> &'static [Topic] {
    &TOPICS
}

/// The topic of this id.
#[must_use]
pub fn topic(id: &str) -> Option<&'static Topic> {
    topics().iter().find(|topic| topic.id == id)
}

impl Topic {
    /// A topic from the text of its `claims.toml`.
    ///
    /// # Errors
    /// The fault: its place in the file, or the claim and the reason.
    pub fn read(text: &str) -> Result<Topic, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let title = file.title.clone();
        let (id, claims) = file.claims()?;
        Ok(Topic { id, title, claims })
    }

    /// The claim of this id, with or without the topic's before it.
    #[must_use]
    pub fn claim(&self, id: &str) -> Option<&Claim> {
        let is = |claim: &&Claim| claim.id == id || claim.id.strip_prefix(&format!("{}.", self.id)) == Some(id);
        self.claims.iter().find(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Expected;
    use std::collections::HashSet;

    #[test]
    fn the_files_are_read_and_ids_are_unique() {
        let mut seen = HashSet::new();
        for (text, topic) in FILES.iter().zip(topics()) {
            assert_eq!(Topic::read(text), Ok(topic.clone()));
            assert!(seen.insert(topic.id.clone()));
            for claim in &topic.claims {
                assert!(seen.insert(claim.id.clone()), "{} twice", claim.id);
                assert!(!claim.source.place.is_empty() && !claim.statement.is_empty(), "{}", claim.id);
            }
        }
        assert_eq!(topic("gap").unwrap().id, "gap");
        assert_eq!(topic("nothing"), None);
    }

    #[test]
    fn a_papers_claim_quotes_a_line_of_its_text() {
        for claim in topics().iter().flat_map(|topic| &topic.claims) {
            let is_papers = ["caladan-osdi20", "rkube-socc21", "vas-rtns21", "his-edgeiso-sdc-snu2020"]
                .contains(&claim.source.text.as_str());
            let quotes = claim.source.line.is_some() && claim.quotation.is_some();
            assert!(quotes || !is_papers, "{}", claim.id);
            // A value that Quell sets itself is a bound, an input or printed only: it never is a number of a text.
            let is_measured = matches!(claim.expected, Expected::Number { .. } | Expected::Range { .. });
            assert!(!(claim.source.is_own() && is_measured), "{}", claim.id);
        }
    }
}
