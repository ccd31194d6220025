//! What `quell reproduce` knows. One module a topic, one line here.

pub mod caladan;
mod evaluation;
pub mod fairness;
pub mod gap;
pub mod queueing;
pub mod rkube;
pub mod vas;

use crate::Claim;

/// A set of claims that one run bears out or refutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Topic {
    /// What to say after `quell reproduce`.
    pub id: &'static str,
    /// What it is about, in one line.
    pub title: &'static str,
    /// Its claims, in the order of their rows.
    pub claims: &'static [&'static Claim],
}

/// Everything that can be reproduced.
pub const TOPICS: &[Topic] = &[gap::TOPIC, queueing::TOPIC, fairness::TOPIC, rkube::TOPIC, caladan::TOPIC, vas::TOPIC];

/// The topic of this id.
#[must_use]
pub fn topic(id: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_unique_and_under_their_topic_and_reasons_are_given() {
        let mut seen = HashSet::new();
        for topic in TOPICS {
            assert!(seen.insert(topic.id));
            for claim in topic.claims {
                assert!(seen.insert(claim.id), "{} twice", claim.id);
                assert!(claim.id.starts_with(&format!("{}.", topic.id)), "{}", claim.id);
                assert!(!claim.tolerance.reason.is_empty() && !claim.source.place.is_empty(), "{}", claim.id);
            }
        }
        assert_eq!(topic("gap").unwrap().id, "gap");
        assert_eq!(topic("nothing"), None);
    }
}
