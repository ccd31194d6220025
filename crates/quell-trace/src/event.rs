//! Events of a CPU scheduler as plain data: output of the collector, input of the accounting.

use quell_model::{CpuId, Nanos};
use serde::{Deserialize, Serialize};

/// The slot of a watched workload: its index in the list that the collector's owner keeps.
pub type Slot = u16;

/// One scheduling event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Time on the host's monotonic clock.
    pub at: Nanos,
    /// The CPU; for a wake-up or a migration, the CPU whose runqueue has the thread now.
    pub cpu: CpuId,
    /// The event.
    pub what: Change,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The CPU stopped running one task and runs another.
    Switch {
        /// The task that left.
        from: Task,
        /// The state of the task that left.
        left: Left,
        /// The task that runs now.
        to: Task,
    },
    /// A watched thread became runnable and waits on this CPU's runqueue.
    Woke(Member),
    /// A watched thread was moved to this CPU's runqueue.
    Migrated(Member),
    /// A watched thread was created; it wakes later.
    Born(Member),
    /// State of a watched thread that existed before the collector. The state from an event about the same thread is
    /// newer and takes precedence.
    Seen(Member, Doing),
    /// The task that runs on a CPU, for a CPU whose task no event has named yet.
    Holds(Task),
    /// A thread is no longer watched: it left its workload.
    Unwatched(Member),
}

/// A watched thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Thread number.
    pub tid: i32,
    /// Its workload.
    pub slot: Slot,
}

/// The task of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// No thread runs.
    #[default]
    Idle,
    /// A thread that is not watched, by its number; 0 where that is not known.
    Other(i32),
    /// A watched thread.
    Member(Member),
}

/// State of a thread that stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Left {
    /// It waits for the CPU: it was preempted, or it yielded.
    Runnable,
    /// It waits for something else.
    Blocked,
    /// It ended.
    Dead,
    /// The kernel did not report that it left, nor its state. It left at some time between this event's and the CPU's
    /// next one; the time between them is attributed to the task that arrived.
    Untold,
}

/// Observed state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// It runs on the event's CPU.
    Running,
    /// It waits on the event's CPU.
    Waiting,
    /// It waits for something else.
    Sleeping,
}
