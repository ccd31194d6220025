//! What a policy wants done.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{CpuId, CpuSet, KnobSetting, LeaseRequest, Rule, SignalSet, WorkloadId};

/// One step's commands. The loop empties and reuses it: writing into it allocates nothing after warm-up.
///
/// A host carries rules out before grants, so that a CPU can be granted by the plan that takes its ban back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// Counts the steps; outcomes name it.
    pub number: u64,
    /// All of these apply, or none.
    pub knobs: Vec<KnobSetting>,
    /// CPUs to workloads; acknowledged one by one.
    pub grants: Vec<GrantCommand>,
    /// What the host does by itself from now on; each replaces the one with the same [`Rule::key`].
    pub rules: Vec<Rule>,
    /// Measurements that cost something.
    pub samples: Vec<SampleRequest>,
    /// Solo runs to begin or to end.
    pub leases: Vec<LeaseRequest>,
    /// The CPUs that this policy leaves to the next one of its stack; None: all of its pool.
    pub leaves: Option<CpuSet>,
    /// Why, for people; part of the record, without effect.
    pub notes: Vec<Note>,
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
    }

    /// Is there nothing to do?
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.knobs.is_empty()
            && self.grants.is_empty()
            && self.rules.is_empty()
            && self.samples.is_empty()
            && self.leases.is_empty()
    }

    /// Says why, for people.
    pub fn note(&mut self, kind: NoteKind, about: Option<WorkloadId>, text: impl Into<Cow<'static, str>>) {
        self.notes.push(Note { kind, about, text: text.into() });
    }
}

/// A change in who owns a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantCommand {
    /// From now on the CPU runs this workload; who runs there is preempted.
    Grant(CpuId, WorkloadId),
    /// The workload loses the CPU; nobody has it.
    Revoke(CpuId),
}

/// A measurement that has a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleRequest {
    /// What to measure.
    pub signals: SignalSet,
    /// On which CPUs.
    pub cpus: CpuSet,
}

/// What a remark is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteKind {
    /// A decision and what was seen.
    Because,
    /// Something that the user should mend.
    Warning,
    /// Something that was asked for and is not done.
    Refused,
}

/// A remark for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// What it is.
    pub kind: NoteKind,
    /// The workload that it concerns.
    pub about: Option<WorkloadId>,
    /// The text.
    pub text: Cow<'static, str>,
}
