//! The demo's phases: the treatment of the server in each, and its needs.

use std::thread;

use quell_model::{Knob, KnobSetting, SchedClass, Target, WorkloadId};

/// The server's workload is attached first, the antagonist's second.
pub const SERVER: WorkloadId = WorkloadId(0);
/// See [`SERVER`].
pub const ANTAGONIST: WorkloadId = WorkloadId(1);

/// Treatment of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Nothing is done.
    Nothing,
    /// The antagonist is started as SCHED_IDLE.
    Idle,
    /// A workload is SCHED_FIFO 1 for the length of the phase.
    Fifo(WorkloadId),
    /// A policy runs.
    Policy(&'static str),
}

/// One phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its name in tables and files.
    pub name: &'static str,
    /// Its title, for people.
    pub title: &'static str,
    /// Does the antagonist run?
    pub antagonist: bool,
    /// Its treatment.
    pub treatment: Treatment,
}

/// All phases, in the order of the table.
pub const PHASES: [Phase; 6] = [
    Phase { name: "alone", title: "server alone", antagonist: false, treatment: Treatment::Nothing },
    Phase { name: "linux", title: "co-run, plain Linux", antagonist: true, treatment: Treatment::Nothing },
    Phase { name: "linux-best", title: "antagonist SCHED_IDLE", antagonist: true, treatment: Treatment::Idle },
    Phase { name: "fifo", title: "server SCHED_FIFO (unsafe)", antagonist: true, treatment: Treatment::Fifo(SERVER) },
    Phase { name: "rkube", title: "Quell rkube: own CPUs", antagonist: true, treatment: Treatment::Policy("rkube") },
    Phase { name: "guard", title: "Quell guard", antagonist: true, treatment: Treatment::Policy("guard") },
];

/// SCHED_FIFO 1 as a command for a host.
pub fn fifo(workload: WorkloadId) -> KnobSetting {
    KnobSetting { target: Target::Workload(workload), knob: Knob::Class(SchedClass::Fifo { priority: 1 }) }
}

/// The reason for leaving a treatment out where a process may not have real-time threads.
pub const NO_REAL_TIME: &str = "it needs the right to real-time threads; run as root";

/// May this process make threads real-time?
pub fn may_be_real_time() -> bool {
    thread::spawn(|| quell_agent::realtime::run_before_others(1)).join().is_ok_and(|allowed| allowed.unwrap_or(false))
}

impl Treatment {
    /// Does it make threads real-time?
    pub fn is_real_time(self) -> bool {
        matches!(self, Treatment::Fifo(_) | Treatment::Policy("guard"))
    }
}
