//! Scheduling classes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// A scheduling class and its parameters (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedClass {
    /// SCHED_OTHER with a nice value (−20…19) and, from Linux 6.12 on, a slice of its own (0.1–100 ms; None: Linux's).
    /// A smaller slice is an earlier virtual deadline.
    Fair {
        /// Nice value.
        nice: i8,
        /// Slice.
        slice: Option<Nanos>,
    },
    /// SCHED_BATCH with a nice value.
    Batch {
        /// Nice value.
        nice: i8,
    },
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO with a priority (1–99).
    Fifo {
        /// Priority.
        priority: u8,
    },
    /// SCHED_RR with a priority (1–99).
    RoundRobin {
        /// Priority.
        priority: u8,
    },
    /// SCHED_DEADLINE.
    Deadline {
        /// Run time per period.
        runtime: Nanos,
        /// Relative deadline.
        deadline: Nanos,
        /// Period.
        period: Nanos,
    },
}

impl SchedClass {
    /// SCHED_OTHER as every thread begins: nice 0, Linux's slice.
    pub const NORMAL: SchedClass = SchedClass::Fair { nice: 0, slice: None };

    /// The class of a thread whose own class, set by its owner, is `own`, where a policy wants this one. Its owner's real-time
    /// thread loses no priority, and a thread that its owner put behind others (SCHED_IDLE, SCHED_BATCH) is not put
    /// before them. SCHED_DEADLINE is wanted of single threads only, within a budget: SCHED_IDLE alone is kept before it.
    #[must_use]
    pub fn beside(self, own: SchedClass) -> SchedClass {
        use SchedClass::{Batch, Deadline, Fair, Fifo, Idle, RoundRobin};
        match (own, self) {
            (Idle, _) => own,
            (_, Deadline { .. }) => self,
            (Batch { .. }, Fair { .. } | Fifo { .. } | RoundRobin { .. }) => own,
            (Fifo { priority: had }, Fifo { priority } | RoundRobin { priority }) => {
                Fifo { priority: had.max(priority) }
            }
            (RoundRobin { priority: had }, Fifo { priority } | RoundRobin { priority }) => {
                RoundRobin { priority: had.max(priority) }
            }
            (Deadline { .. }, _) => own,
            (Fifo { .. } | RoundRobin { .. }, Fair { .. } | Batch { .. } | Idle) => own,
            _ => self,
        }
    }

    /// Does the thread run before every fair thread?
    #[must_use]
    pub fn is_real_time(self) -> bool {
        matches!(self, SchedClass::Fifo { .. } | SchedClass::RoundRobin { .. } | SchedClass::Deadline { .. })
    }
}

impl Default for SchedClass {
    fn default() -> SchedClass {
        SchedClass::NORMAL
    }
}

impl fmt::Display for SchedClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedClass::Fair { nice, slice: None } => write!(f, "SCHED_OTHER nice {nice}"),
            SchedClass::Fair { nice, slice: Some(slice) } => write!(f, "SCHED_OTHER nice {nice} slice {slice}"),
            SchedClass::Batch { nice } => write!(f, "SCHED_BATCH nice {nice}"),
            SchedClass::Idle => f.write_str("SCHED_IDLE"),
            SchedClass::Fifo { priority } => write!(f, "SCHED_FIFO {priority}"),
            SchedClass::RoundRobin { priority } => write!(f, "SCHED_RR {priority}"),
            SchedClass::Deadline { runtime, deadline, period } => {
                write!(f, "SCHED_DEADLINE {runtime} by {deadline} every {period}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: SchedClass = SchedClass::Deadline { runtime: Nanos(1), deadline: Nanos(3), period: Nanos(3) };

    fn fifo(priority: u8) -> SchedClass {
        SchedClass::Fifo { priority }
    }

    #[test]
    fn what_an_owner_made_real_time_loses_no_priority() {
        assert_eq!(fifo(1).beside(fifo(50)), fifo(50));
        assert_eq!(fifo(60).beside(fifo(50)), fifo(60), "not behind the threads that it preempted before");
        assert_eq!(SchedClass::NORMAL.beside(fifo(50)), fifo(50), "a demotion");
        let robin = |priority| SchedClass::RoundRobin { priority };
        assert_eq!(fifo(1).beside(robin(7)), robin(7));
        assert_eq!(fifo(9).beside(robin(7)), robin(9));
        assert_eq!(fifo(99).beside(DEADLINE), DEADLINE);
        assert_eq!(DEADLINE.beside(fifo(50)), DEADLINE, "a server of its own");
    }

    #[test]
    fn what_an_owner_put_behind_others_becomes_no_real_time_thread() {
        let batch = SchedClass::Batch { nice: 5 };
        assert_eq!(fifo(1).beside(SchedClass::Idle), SchedClass::Idle);
        assert_eq!(fifo(1).beside(batch), batch);
        assert_eq!(DEADLINE.beside(SchedClass::Idle), SchedClass::Idle);
        assert_eq!(SchedClass::NORMAL.beside(SchedClass::Idle), SchedClass::Idle, "a demotion");
        assert_eq!(SchedClass::NORMAL.beside(batch), batch);
        assert_eq!(SchedClass::Idle.beside(batch), SchedClass::Idle);
        assert_eq!(fifo(1).beside(SchedClass::Fair { nice: 7, slice: None }), fifo(1));
    }
}
