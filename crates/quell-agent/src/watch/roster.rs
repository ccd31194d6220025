//! State of each configured workload, attached or not.

use quell_linux::Departure;
use quell_model::{Nanos, Workload};
use quell_scrape::Source;

use crate::wire::Remark;

/// State of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing has matched its selectors yet.
    Waiting,
    /// It is managed.
    Attached,
    /// It was there, and all its processes ended.
    Gone,
    /// It was there; its processes run on, and are not the workload's any more.
    Left,
    /// Quell leaves it to another program that keeps changing it.
    LeftAlone,
    /// It is there, and the host would not attach it.
    Refused,
}

/// One workload of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its description in the configuration.
    pub workload: Workload,
    /// State.
    pub standing: Standing,
    /// Start of that state, on the loop's clock.
    pub since: Nanos,
    /// The caller that leased it; None: it stands in the configuration.
    pub leased_by: Option<String>,
    /// Where its latency is read; None: it is posted, or not known.
    pub latency: Option<Source>,
    /// Last reason for its not being attached.
    pub why: Option<String>,
    /// The latest processes that left it and run on.
    pub left: Vec<Departure>,
    /// Values that are not what Quell set; `None`: all stand.
    pub overridden: Option<Overridden>,
    /// Facts beside the state.
    pub remarks: Vec<Remark>,
}

/// What becomes of values of threads that another program changed.
pub const LEFT_SO: &str = "Quell leaves classes unchanged until its policy sets them again, and CPU sets until threads or CPUs come or go; `quell off` and then \
     `quell on` sets all again";

/// A setting of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// The scheduling class of threads, and their nice values.
    Class,
    /// The CPUs of threads.
    Cpus,
    /// Another place, by its name.
    Other(String),
}

/// Equal differences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    /// What differs.
    pub setting: Setting,
    /// Number of places.
    pub count: u32,
    /// The value that was set.
    pub wanted: String,
    /// The present value.
    pub found: String,
}

/// What differs of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overridden {
    /// When it was first found so, on the loop's clock.
    pub since: Nanos,
    /// Number of its threads with another value.
    pub threads: u32,
    /// Number of its threads.
    pub of: u32,
    /// The differences, the commonest first.
    pub differing: Vec<Differing>,
}

impl Overridden {
    /// No differences yet.
    #[must_use]
    pub fn since(now: Nanos) -> Overridden {
        Overridden { since: now, threads: 0, of: 0, differing: Vec::new() }
    }

    /// One line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |differing: &Differing| {
            let of = match (&differing.setting, differing.count) {
                (Setting::Other(place), _) => place.clone(),
                (_, 1) => "1 thread".to_owned(),
                (_, count) => format!("{count} threads"),
            };
            format!("{of}: {} instead of {}", differing.found, differing.wanted)
        };
        self.differing.iter().map(line).collect()
    }
}

/// The workloads of the configuration, in its order.
pub type Roster = Vec<Entry>;
