//! Events since the last step, and the outcomes of commands.

use serde::{Deserialize, Serialize};

use crate::{CpuId, Nanos, ThreadId, WorkloadId};

/// An event on the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A workload was added, or its description changed.
    Attached(WorkloadId),
    /// A workload was removed.
    Detached(WorkloadId),
    /// What the cgroups of a workload, and those above it, allow it changed: [`crate::Allowance`].
    Allowed(WorkloadId),
    /// A thread of a workload was created.
    ThreadBorn(WorkloadId, ThreadId),
    /// A thread of a workload exited.
    ThreadDied(WorkloadId, ThreadId),
    /// A thread runs on and is the workload's no more: it is another program, user or cgroup now. What was set on it for the
    /// workload has been put back.
    ThreadLeft(WorkloadId, ThreadId),
    /// A workload yielded a granted CPU.
    Yielded(CpuId, WorkloadId),
    /// A CPU went offline.
    Offline(CpuId),
    /// A CPU came online.
    Online(CpuId),
    /// A queue formed, after there was none.
    QueueFormed(WorkloadId),
    /// Requested samples are in the view.
    SamplesReady,
    /// The solo run of this workload began: from now on it runs alone.
    SoloBegan(WorkloadId),
    /// A solo run would pause this workload, and it runs on beside it: a watchdog would end it.
    Spared(WorkloadId),
    /// The solo run of this workload ended.
    SoloEnded(WorkloadId, SoloEnd),
    /// A latency histogram arrived.
    LatencyArrived(WorkloadId),
    /// The outcome of a command.
    Outcome(Outcome),
    /// A workload's server on this CPU has threads to run and no budget left, for the first time in its period. With the
    /// longest time that it ran beyond a budget since the last such event here.
    BudgetExhausted(WorkloadId, CpuId, Nanos),
}

/// Reason for the end of a solo run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SoloEnd {
    /// Its time was over.
    Elapsed,
    /// The policy ended it.
    Released,
    /// Its rest is another workload's, which runs alone now.
    Passed,
    /// The workload is gone.
    Detached,
    /// A workload that may not be paused needed the machine.
    Interrupted,
}

/// Position of a command in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// All knobs of the plan together: they and the rules apply as a whole or not at all.
    Knobs,
    /// The grant command at this index.
    Grant(u32),
    /// The rule at this index.
    Rule(u32),
    /// The sample request at this index.
    Sample(u32),
    /// The lease at this index.
    Lease(u32),
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The plan's number ([`crate::Plan::number`]).
    pub plan: u64,
    /// The command in it.
    pub part: Part,
    /// The result.
    pub verdict: Verdict,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Done, at this time.
    Applied(Nanos),
    /// Under way; settled by this time at the latest.
    Pending(Nanos),
    /// Not done, and nothing changed.
    Refused(Refusal),
    /// The target is gone; nothing was to be done.
    Vanished,
}

/// Reason for a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The host has no such knob or rule.
    Unsupported(String),
    /// The configuration does not allow it.
    Forbidden(String),
    /// The system refused; the text names path, operation and error.
    System(String),
    /// The holder of the CPU changed since the observation: a rule was faster.
    Overtaken,
    /// Solo runs have used up their share of the time; the next is possible at this time.
    DutyCycle(Nanos),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Unsupported(what) => write!(f, "this host cannot do it: {what}"),
            Refusal::Forbidden(what) => write!(f, "the configuration does not allow it: {what}"),
            Refusal::System(what) => f.write_str(what),
            Refusal::Overtaken => f.write_str("the CPU changed hands meanwhile: a rule was faster"),
            Refusal::DutyCycle(until) => write!(f, "solo runs have used up their share of the time until {until}"),
        }
    }
}
