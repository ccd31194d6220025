//! The record's format: MessagePack values one after the other, compressed by zstd.
//!
//! Self-describing (fields have names), so that a record can be read without the program that wrote it, and exact: every
//! number comes back bit by bit, which JSON does not promise for infinite ones, and maps may have any key. First a
//! [`Header`], then one [`Turn`] after the other. A record that ends in the middle of a turn ends before it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use quell_model::view::{CpuColumns, MachineSamples, ThreadColumns, WorkloadColumns};
use quell_model::{
    Allowance, BytesPerSecond, Controls, CpuSet, Event, HostDomain, KnobKind, Nanos, Plan, Policy, RuleKind, Sample,
    Topology, WorkloadId,
};
use quell_policy::AnyPolicy;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// The version that this program writes; it reads this one and those before.
///
/// 2: the machine's measurements are a map of its own, sets of signals are lists of names. 3: turns have what there is to
/// turn. 4: turns have the machine's CPUs and what cgroups allow.
pub const VERSION: u32 = 4;

/// Start of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub quell_record: u32,
    /// The version of Quell that wrote it.
    pub quell: String,
    /// The machine's CPUs.
    pub topology: Arc<Topology>,
    /// The layers, first to last.
    pub layers: Vec<LayerStart>,
}

/// One layer before its first recorded step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerStart {
    /// The policy with its whole state.
    pub policy: State,
    /// The workloads that it owns; None: all.
    pub workloads: Option<Vec<WorkloadId>>,
    /// The kinds of rules that the host declared impossible: they are in none of its plans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impossible: Vec<RuleKind>,
    /// The kinds of knobs, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impossible_knobs: Vec<KnobKind>,
}

/// A policy's whole state. It is no part of the format's promise: another version of Quell may have written a form that
/// this one does not know, and the record can be read all the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum State {
    /// A state of this version's.
    Known(Box<AnyPolicy>),
    /// By the policy's name.
    #[serde(skip_serializing)]
    Unknown(BTreeMap<String, IgnoredAny>),
}

impl State {
    /// The policy's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            State::Known(policy) => Policy::<HostDomain>::describe(&**policy).name,
            State::Unknown(by_name) => by_name.keys().next().map_or("unknown", String::as_str),
        }
    }
}

impl From<AnyPolicy> for State {
    fn from(policy: AnyPolicy) -> State {
        State::Known(Box::new(policy))
    }
}

/// One turn of the loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn<'a> {
    /// Turns that are missing before this one, because the disk was too slow.
    pub lost: u64,
    /// The policies' states after this turn, where turns are missing before it: from here on replay is exact again.
    pub states: Option<Vec<State>>,
    /// The time.
    pub now: Nanos,
    /// What there is to turn, where that is not as in the last recorded turn; before the first one it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controls: Option<Arc<Controls>>,
    /// The machine's CPUs, where they are not as in the last recorded turn; before the first one they are the header's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Arc<Topology>>,
    /// What the workloads' cgroups allow them, where that is not as in the last recorded turn; before the first one it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowances: Option<Arc<Vec<Allowance>>>,
    /// Per workload.
    pub workloads: Cow<'a, WorkloadColumns>,
    /// Per CPU.
    pub cpus: Cow<'a, CpuColumns>,
    /// Per thread.
    pub threads: Cow<'a, ThreadColumns>,
    /// The whole machine.
    #[serde(default)]
    pub machine: MachineSamples,
    /// In version 1: the machine's memory bandwidth in use.
    #[serde(default, rename = "memory_bandwidth", skip_serializing)]
    pub bandwidth_1: Option<Sample<BytesPerSecond>>,
    /// In version 1: the machine's memory slowdown, a multiple of its quiet latency.
    #[serde(default, rename = "memory_slowdown", skip_serializing)]
    pub slowdown_1: Option<Sample<f64>>,
    /// The layers that stepped.
    pub steps: Vec<Step<'a>>,
}

impl Turn<'_> {
    /// Moves the fields of version 1 to their new places.
    pub(super) fn upgrade(&mut self) {
        if let Some(bandwidth) = self.bandwidth_1.take() {
            self.machine.memory_bandwidth = bandwidth;
        }
        if let Some(slowdown) = self.slowdown_1.take() {
            self.machine.memory_slowdown = slowdown;
        }
    }
}

/// One layer's step in a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step<'a> {
    /// The layer.
    pub layer: u32,
    /// The CPUs that were its pool.
    pub pool: CpuSet,
    /// The events before the step.
    pub events: Cow<'a, [Event]>,
    /// The plan.
    pub plan: Cow<'a, Plan>,
}

#[cfg(test)]
mod tests {
    use quell_model::trial::{Finding, Judge, KnownBy, Resource, Then, Windows};
    use quell_model::{KnobKind, Quality, Trial};

    use super::*;

    /// Names are short, so that a record of a trial has room.
    #[test]
    fn the_longest_trial_has_256_bytes_at_most() {
        let windows = Windows { median: 1234.5678, spread: 1e-9, count: 255 };
        let one = Some(WorkloadId(u32::MAX));
        let mut longest = 0;
        for &knob in KnobKind::ALL {
            let trial = Trial {
                number: u32::MAX,
                victim: WorkloadId(u32::MAX),
                by_latency: true,
                resource: Resource::MemoryBandwidth,
                contention: -0.123,
                quality: Quality::Estimated,
                aggressor: one,
                known_by: KnownBy::Bandwidth,
                knob,
                on: one,
                from: Some(u32::MAX),
                to: Some(u32::MAX),
                expected: -0.1,
                settling_ms: u32::MAX,
                judge: Judge::CyclesPerInstruction,
                before: windows,
                after: windows,
                cost: Some(0.123),
                finding: Finding::Overtaken,
                then: Then::Undone,
            };
            let bytes = rmp_serde::to_vec_named(&trial).unwrap();
            assert_eq!(rmp_serde::from_slice::<Trial>(&bytes).unwrap(), trial);
            longest = longest.max(bytes.len());
        }
        assert!(longest <= 256, "{longest}");
    }
}
