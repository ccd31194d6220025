//! A full run's values, kept beside the claims: what the documents' tables are made of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::assumption::assumptions;
use crate::measure::{Found, Measure};
use crate::registry::Topic;
use crate::row::Row;
use crate::verdict::Interval;

/// The values of one topic: `papers/TOPIC/results.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The topic's id.
    pub topic: String,
    /// The program that ran, and its version.
    pub build: String,
    /// Seeds of each row that has any.
    pub seeds: u64,
    /// SHA-256 of the assumptions' values as they were then.
    pub assumed: String,
    /// By claim: the value, and its interval where it has one.
    pub rows: BTreeMap<String, Vec<f64>>,
}

impl Results {
    /// The rows that have a value.
    #[must_use]
    pub fn of(topic: &Topic, rows: &[Row], build: &str, seeds: u64) -> Results {
        let value = |row: &Row| {
            let ours = row.ours?;
            let interval = row.interval.map_or(Vec::new(), |Interval { low, high }| vec![low, high]);
            Some((row.claim.id.clone(), [vec![ours], interval].concat()))
        };
        let own = rows.iter().filter(|row| row.claim.id.split('.').next() == Some(topic.id.as_str()));
        Results {
            topic: topic.id.clone(),
            build: build.to_owned(),
            seeds,
            assumed: assumed(&topic.id),
            rows: own.filter_map(value).collect(),
        }
    }

    /// # Errors
    /// The place of the fault.
    pub fn read(text: &str) -> Result<Results, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The rows of all claims, judged by today's claims and rules.
    #[must_use]
    pub fn judged(&self, topic: &'static Topic) -> Vec<Row> {
        let row = |claim: &'static crate::Claim| {
            let found = match self.rows.get(&claim.id).map(Vec::as_slice) {
                Some([value, low, high]) => Found::Estimate(*value, Interval { low: *low, high: *high }),
                Some([value]) => Found::Seeds(vec![*value]),
                _ => {
                    return Row::not_run(claim, claim.missing.as_deref().unwrap_or("not part of that run"));
                }
            };
            Row::of(claim, &Measure { id: claim.id.clone(), found, note: String::new() })
        };
        topic.claims.iter().map(row).collect()
    }

    /// Were the assumptions others then than they are now?
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.assumed != assumed(&self.topic)
    }
}

/// A hash of the values that a topic assumes.
fn assumed(topic: &str) -> String {
    let mut hash = Sha256::new();
    for of in assumptions(topic) {
        hash.update(format!("{}={}\n", of.id, of.value));
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::topic;
    use crate::verdict::Verdict;

    #[test]
    fn what_is_kept_is_judged_alike_and_says_when_assumptions_changed() {
        let topic = topic("rkube").unwrap();
        let id = "rkube.fig1b.alone-p99";
        let found = Found::Seeds(vec![380.0, 384.0, 388.0]);
        let row = Row::of(topic.claim(id).unwrap(), &Measure { id: id.into(), found, note: String::new() });
        let results = Results::of(topic, std::slice::from_ref(&row), "quell", 3);
        let again = Results::read(&toml::to_string(&results).unwrap()).unwrap();
        assert_eq!(again, results);
        let judged = again.judged(topic);
        assert_eq!(judged.len(), topic.claims.len());
        assert_eq!(*judged.iter().find(|of| of.claim.id == id).unwrap(), row);
        assert_eq!(judged.iter().filter(|row| row.verdict != Verdict::NotRun).count(), 1);
        assert!(!again.is_stale());
        assert!(Results { assumed: String::new(), ..again }.is_stale());
    }
}
