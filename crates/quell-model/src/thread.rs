//! Threads, as policies that act on single threads see them.

use serde::{Deserialize, Serialize};

/// A thread: its number and its start time, so that a reused number is another thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadId {
    /// Thread number (tid).
    pub tid: i32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start: u64,
}

/// Present state of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadState {
    /// Running or runnable.
    Runnable,
    /// Blocked.
    #[default]
    Sleeping,
    /// Stopped or frozen.
    Stopped,
    /// Dead, not yet reaped.
    Dead,
}
