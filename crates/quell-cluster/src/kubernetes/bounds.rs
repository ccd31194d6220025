//! Bounds on evictions, and who moves for whom: a namespace's services have a bounded number of evictions an hour, whatever they report.

use std::collections::{BTreeMap, VecDeque};

use quell_model::Nanos;
use quell_model::cluster::Budget;

const HOUR: Nanos = Nanos::from_secs(3600);

/// Bounds on evictions. An eviction restarts: they are narrower than those of live moves (ours).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Of the cluster, a node and a workload.
    pub budget: Budget,
    /// Evictions an hour for the services of one namespace: what they report of their latency is their owner's word.
    pub per_namespace: u32,
}

impl Default for Bounds {
    fn default() -> Bounds {
        let budget = Budget { at_once: 4, per_host: 1, per_hour: 2, cool_down: Nanos::from_secs(600) };
        Bounds { budget, per_namespace: 30 }
    }
}

/// Evictions of the last hour by the namespace for which they were made.
#[derive(Clone, Debug, Default)]
pub struct Relieved(BTreeMap<String, VecDeque<Nanos>>);

impl Relieved {
    /// Evictions for this namespace in the hour before now.
    pub fn number(&mut self, now: Nanos, namespace: &str) -> usize {
        let is_old = |at: &Nanos| *at + HOUR <= now;
        for times in self.0.values_mut() {
            while times.front().is_some_and(is_old) {
                times.pop_front();
            }
        }
        self.0.retain(|_, times| !times.is_empty());
        self.0.get(namespace).map_or(0, VecDeque::len)
    }

    /// One more.
    pub fn add(&mut self, now: Nanos, namespace: &str) {
        self.0.entry(namespace.to_owned()).or_default().push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_after_they_count_no_more_and_other_namespaces_have_their_own() {
        let (mut relieved, at) = (Relieved::default(), Nanos::from_secs);
        relieved.add(at(0), "a");
        relieved.add(at(10), "a");
        assert_eq!((relieved.number(at(20), "a"), relieved.number(at(20), "b")), (2, 0));
        assert_eq!(relieved.number(at(3600), "a"), 1);
        assert_eq!(relieved.number(at(3610), "a"), 0);
        assert!(relieved.0.is_empty());
    }
}
