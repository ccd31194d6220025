//! What the API shows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use quell_gap::attribution::{Entry, How, Key, Ledger, Part};
use quell_model::Nanos;

use crate::wire;

/// The latest, shared by the thread of attribution and the API's; the loop never takes this lock.
#[derive(Clone, Debug, Default)]
pub struct Shown(Arc<Mutex<Latest>>);

#[derive(Debug, Default)]
struct Latest {
    agent: Option<wire::Attribution>,
    by_name: HashMap<String, wire::Waited>,
}

impl Shown {
    pub(super) fn show(&self, agent: wire::Attribution, by_name: HashMap<String, wire::Waited>) {
        *self.latest() = Latest { agent: Some(agent), by_name };
    }

    /// Of the agent.
    #[must_use]
    pub fn agent(&self) -> Option<wire::Attribution> {
        self.latest().agent.clone()
    }

    /// Of a workload.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<wire::Waited> {
        self.latest().by_name.get(name).cloned()
    }

    fn latest(&self) -> std::sync::MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An account as the API has it.
pub(super) fn waited(ledger: &Ledger, now: Nanos) -> wire::Waited {
    let recent = ledger.recent(now);
    let line = |key: &Key, entry: Entry| wire::WaitedFor {
        cause: key.cause.label().to_owned(),
        by: key.by.clone(),
        waited_ns: entry.time.0,
        at_least_ns: entry.low.0,
        at_most_ns: entry.high.0,
    };
    let part = |part: &Part| line(&part.key, Entry { time: part.time, low: part.low, high: part.high });
    wire::Waited {
        waited_ns: ledger.waited().0,
        unsettled_ns: ledger.unsettled().0,
        by: ledger.series().iter().map(|(key, entry)| line(key, *entry)).collect(),
        lately: wire::WaitedLately {
            window_ns: recent.window.0,
            waited_ns: recent.waited.0,
            known: match recent.how {
                How::Traced => wire::Known::Traced,
                How::Estimated => wire::Known::Estimated,
                How::Unknown => wire::Known::Unknown,
            },
            by: recent.parts.iter().map(part).collect(),
        },
    }
}
