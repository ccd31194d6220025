//! The record's format: MessagePack values one after the other, compressed by zstd.
//!
//! Self-describing (fields have names), so that a record can be read without the program that wrote it, and exact: every
//! number comes back bit by bit, which JSON does not promise for infinite ones, and maps may have any key. First a
//! [`Header`], then one [`Turn`] after the other. A record that ends in the middle of a turn ends before it.

use std::borrow::Cow;
use std::sync::Arc;

use quell_model::view::{CpuColumns, ThreadColumns, WorkloadColumns};
use quell_model::{BytesPerSecond, CpuSet, Event, Nanos, Plan, Sample, Topology, WorkloadId};
use quell_policy::AnyPolicy;
use serde::{Deserialize, Serialize};

/// The version that this program writes.
pub const VERSION: u32 = 1;

/// How a record begins.
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
    pub policy: AnyPolicy,
    /// The workloads that it owns; None: all.
    pub workloads: Option<Vec<WorkloadId>>,
}

/// One turn of the loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn<'a> {
    /// Turns that are missing before this one, because the disk was too slow.
    pub lost: u64,
    /// The policies' states after this turn, where turns are missing before it: from here on replay is exact again.
    pub states: Option<Vec<AnyPolicy>>,
    /// The time.
    pub now: Nanos,
    /// Per workload.
    pub workloads: Cow<'a, WorkloadColumns>,
    /// Per CPU.
    pub cpus: Cow<'a, CpuColumns>,
    /// Per thread.
    pub threads: Cow<'a, ThreadColumns>,
    /// The machine's memory bandwidth in use.
    pub memory_bandwidth: Sample<BytesPerSecond>,
    /// How many times its quiet latency the machine's memory takes to answer.
    #[serde(default)]
    pub memory_slowdown: Sample<f64>,
    /// The layers that stepped.
    pub steps: Vec<Step<'a>>,
}

/// One layer's step in a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step<'a> {
    /// Which layer.
    pub layer: u32,
    /// The CPUs that were its pool.
    pub pool: CpuSet,
    /// What had happened.
    pub events: Cow<'a, [Event]>,
    /// What it wanted.
    pub plan: Cow<'a, Plan>,
}
