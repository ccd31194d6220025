//! How soon a knob of control groups acts: from its write to the moment at which a thread does what it did not before.
//!
//! All threads are this process's own, in groups of their own; the process is back where it was at the end.

mod groups;
mod measure;
mod watched;

use serde::{Deserialize, Serialize};

pub use measure::measure;

/// A knob, and which way it is turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// `cpu.max` from none to half of each period of 100 ms: until the thread is first kept from running.
    Quota,
    /// `cpuset.cpus` from one CPU to another: until the thread runs there.
    CpuSet,
    /// `cgroup.freeze`: until the thread has run for the last time.
    Freeze,
    /// The same, put back: until the thread runs again.
    Thaw,
    /// `cpu.weight` from 100 to 10 beside a thread of 100: until the thread has waited for twice as long as ever in the half
    /// second before.
    Weight,
}

impl Turn {
    /// All.
    pub const ALL: [Turn; 5] = [Turn::Quota, Turn::CpuSet, Turn::Freeze, Turn::Thaw, Turn::Weight];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Turn::Quota => "quota",
            Turn::CpuSet => "cpu-set",
            Turn::Freeze => "freeze",
            Turn::Thaw => "thaw",
            Turn::Weight => "weight",
        }
    }
}

/// What was found of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Of which.
    pub turn: Turn,
    /// Times from the write's begin to its effect, ns, in the order of the trials.
    pub after_ns: Vec<u64>,
    /// Trials in which no effect was seen.
    pub unseen: u32,
}
