//! Events of a cluster, and the outcomes of commands.

use serde::{Deserialize, Serialize};

use super::{HostId, Spent};
use crate::{Nanos, WorkloadId};

/// An event in the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterEvent {
    /// A host came, or came back.
    HostCame(HostId),
    /// A host went, and its workloads with it: they wait for a place again.
    HostWent(HostId),
    /// A host's size or state changed.
    HostChanged(HostId),
    /// A workload waits for a place.
    Wants(WorkloadId),
    /// A workload ended.
    Ended(WorkloadId),
    /// A move began.
    MoveBegan(WorkloadId, HostId),
    /// A part of the memory, 0–1, has arrived.
    MoveProgressed(WorkloadId, f64),
    /// A move ended.
    MoveEnded(WorkloadId, MoveEnd),
    /// The outcome of a command.
    Outcome(ClusterOutcome),
}

/// The end of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveEnd {
    /// The workload is on its new host; it stood still for this time.
    Arrived(Nanos),
    /// The move failed; the workload is where it was.
    Failed,
    /// Its deadline passed; the workload is where it was.
    TooLate,
    /// The policy ended it; the workload is where it was.
    Cancelled,
    /// The workload, or its host, is gone.
    Lost,
}

/// Position of a command in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterPart {
    /// The placement at this index.
    Place(u32),
    /// The move at this index.
    Move(u32),
    /// The cancellation at this index.
    Cancel(u32),
    /// The mark at this index.
    Mark(u32),
}

/// The outcome of a command; each command has its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterOutcome {
    /// The plan's number.
    pub plan: u64,
    /// The command in it.
    pub part: ClusterPart,
    /// The result.
    pub verdict: ClusterVerdict,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterVerdict {
    /// Done, at this time.
    Applied(Nanos),
    /// Under way; ended by this time at the latest.
    Pending(Nanos),
    /// Not done, and nothing changed.
    Refused(ClusterRefusal),
    /// The workload or the host is gone.
    Vanished,
}

/// Reason for a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterRefusal {
    /// The host is not ready, or has no room.
    NoRoom(HostId),
    /// The workload is placed, or under way, or there already, or may not move.
    NotNow,
    /// The move budget is spent.
    Budget(Spent),
    /// The driver failed; the text names operation and error.
    System(String),
}
