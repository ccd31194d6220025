//! The commands of a cluster policy. Each is acknowledged alone.

use serde::{Deserialize, Serialize};

use super::{Contended, HostId};
use crate::{Nanos, WorkloadId};

/// Gives a waiting workload a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceCommand {
    /// The workload.
    pub workload: WorkloadId,
    /// Its host.
    pub host: HostId,
}

/// Moves a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveCommand {
    /// The workload.
    pub workload: WorkloadId,
    /// Its new host.
    pub to: HostId,
    /// The move is ended, and undone, at this time.
    pub deadline: Nanos,
    /// The service for which it is made.
    #[serde(default)]
    pub relieves: Option<WorkloadId>,
}

/// Marks a host by its class of contention. What else places workloads there prefers hosts of lower classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkCommand {
    /// The host.
    pub host: HostId,
    /// Its class.
    pub class: Contended,
}

/// A cluster policy's commands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// Its number; outcomes name it.
    pub number: u64,
    /// Placements of waiting workloads.
    pub places: Vec<PlaceCommand>,
    /// Moves.
    pub moves: Vec<MoveCommand>,
    /// Moves to end.
    pub cancels: Vec<WorkloadId>,
    /// Marks.
    #[serde(default)]
    pub marks: Vec<MarkCommand>,
    /// Notes for people.
    pub notes: Vec<(Option<WorkloadId>, String)>,
}

impl ClusterPlan {
    /// Empties it for the next step and keeps its memory.
    pub fn begin(&mut self, number: u64) {
        self.number = number;
        self.places.clear();
        self.moves.clear();
        self.cancels.clear();
        self.marks.clear();
        self.notes.clear();
    }

    /// Is there nothing to do?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty() && self.moves.is_empty() && self.cancels.is_empty() && self.marks.is_empty()
    }
}
