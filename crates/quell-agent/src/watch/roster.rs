//! Where each workload of the configuration stands, attached or not.

use quell_model::{Nanos, Workload};

/// Where a workload stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing has matched its selectors yet.
    Waiting,
    /// It is managed.
    Attached,
    /// It was there, and all its processes ended.
    Gone,
    /// Quell leaves it to another program that keeps changing it.
    LeftAlone,
    /// It is there, and the host would not attach it.
    Refused,
}

/// One workload of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// As the configuration describes it.
    pub workload: Workload,
    /// Where it stands.
    pub standing: Standing,
    /// Since when, on the loop's clock.
    pub since: Nanos,
    /// What was said last about why it is not attached.
    pub why: Option<String>,
}

/// The workloads of the configuration, in its order.
pub type Roster = Vec<Entry>;
