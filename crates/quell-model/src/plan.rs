//! A policy's commands.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{CpuId, CpuSet, KnobSetting, LeaseRequest, Rule, SignalSet, Trial, WorkloadId};

/// One step's commands. The loop empties and reuses it: writing into it allocates nothing after warm-up.
///
/// A host carries out rules before grants, so that a CPU can be granted by the plan that lifts its ban.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// Counts the steps; outcomes name it.
    pub number: u64,
    /// All of these and of the rules apply, or none.
    pub knobs: Vec<KnobSetting>,
    /// CPUs to workloads; acknowledged one by one.
    pub grants: Vec<GrantCommand>,
    /// Actions that the host takes by itself from now on; each rule replaces the one with the same [`Rule::key`]. All of them and
    /// of the knobs apply, or none; a kind that the host declared impossible is left out.
    pub rules: Vec<Rule>,
    /// Measurements with a cost.
    pub samples: Vec<SampleRequest>,
    /// Solo runs to begin or to end.
    pub leases: Vec<LeaseRequest>,
    /// The CPUs that this policy leaves to the next one of its stack; None: all of its pool.
    pub leaves: Option<CpuSet>,
    /// Reasons, for people; part of the record, without effect.
    pub notes: Vec<Note>,
    /// What was tried and what it showed, for people; part of the record, without effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trial>,
}

impl Plan {
    /// Empties it for the next step and keeps its memory.
    pub fn begin(&mut self, number: u64) {
        self.number = number;
        self.knobs.clear();
        self.grants.clear();
        self.rules.clear();
        self.samples.clear();
        self.leases.clear();
        self.leaves = None;
        self.notes.clear();
        self.trials.clear();
    }

    /// Is the plan without commands?
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.knobs.is_empty()
            && self.grants.is_empty()
            && self.rules.is_empty()
            && self.samples.is_empty()
            && self.leases.is_empty()
    }

    /// Adds a reason, for people.
    pub fn note(&mut self, kind: NoteKind, about: Option<WorkloadId>, text: impl Into<Cow<'static, str>>) {
        self.notes.push(Note { kind, about, text: text.into() });
    }
}

/// A change of a CPU's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantCommand {
    /// Gives the CPU to this workload from now on; the thread that runs there is preempted.
    Grant(CpuId, WorkloadId),
    /// Takes the CPU from its workload; it then has no holder.
    Revoke(CpuId),
}

/// A request for a measurement with a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleRequest {
    /// The signals to measure.
    pub signals: SignalSet,
    /// On which CPUs.
    pub cpus: CpuSet,
}

/// Kind of remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteKind {
    /// A decision and the observation behind it.
    Because,
    /// A problem that the user should fix.
    Warning,
    /// A request that is not carried out.
    Refused,
}

/// A remark for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its kind.
    pub kind: NoteKind,
    /// The workload that it concerns.
    pub about: Option<WorkloadId>,
    /// The text.
    pub text: Cow<'static, str>,
}
