//! The demo's phases: what is done for the server in each, and what it needs.

use quell_model::{Knob, KnobSetting, SchedClass, Target, WorkloadId};

/// The server's workload is attached first, the antagonist's second.
pub const SERVER: WorkloadId = WorkloadId(0);
/// See [`SERVER`].
pub const ANTAGONIST: WorkloadId = WorkloadId(1);

/// How the server is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Nothing is done.
    Nothing,
    /// One knob is set for the length of the phase.
    Set(WorkloadId, Setting),
    /// A policy runs.
    Policy(&'static str),
}

/// The knobs that Linux users set by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// SCHED_IDLE.
    IdleOnly,
    /// SCHED_FIFO 1.
    Fifo,
}

/// One phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its name in tables and files.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// Does the antagonist run?
    pub antagonist: bool,
    /// What is done.
    pub treatment: Treatment,
    /// Does it need the right to make threads real-time?
    pub real_time: bool,
}

/// All phases, in the order of the table.
pub const PHASES: [Phase; 6] = [
    Phase { name: "alone", title: "server alone", antagonist: false, treatment: Treatment::Nothing, real_time: false },
    Phase {
        name: "linux",
        title: "co-run, plain Linux",
        antagonist: true,
        treatment: Treatment::Nothing,
        real_time: false,
    },
    Phase {
        name: "linux-best",
        title: "antagonist SCHED_IDLE",
        antagonist: true,
        treatment: Treatment::Set(ANTAGONIST, Setting::IdleOnly),
        real_time: false,
    },
    Phase {
        name: "fifo",
        title: "server SCHED_FIFO (unsafe)",
        antagonist: true,
        treatment: Treatment::Set(SERVER, Setting::Fifo),
        real_time: true,
    },
    Phase {
        name: "rkube",
        title: "Quell rkube: own CPUs",
        antagonist: true,
        treatment: Treatment::Policy("rkube"),
        real_time: false,
    },
    Phase {
        name: "guard",
        title: "Quell guard",
        antagonist: true,
        treatment: Treatment::Policy("guard"),
        real_time: true,
    },
];

impl Setting {
    /// The setting as a command for a host.
    pub fn command(self, workload: WorkloadId) -> KnobSetting {
        let knob = match self {
            Setting::IdleOnly => Knob::IdleOnly(true),
            Setting::Fifo => Knob::Class(SchedClass::Fifo { priority: 1 }),
        };
        KnobSetting { target: Target::Workload(workload), knob }
    }
}
