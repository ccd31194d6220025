//! State of each configured workload, attached or not.

use quell_linux::Departure;
use quell_model::{Nanos, Workload};

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
    /// Last reason for its not being attached.
    pub why: Option<String>,
    /// The latest processes that left it and run on.
    pub left: Vec<Departure>,
}

/// The workloads of the configuration, in its order.
pub type Roster = Vec<Entry>;
