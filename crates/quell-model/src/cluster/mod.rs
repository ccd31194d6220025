//! A second domain of the loop: a cluster of hosts. Its commands take tens of seconds, and fail.

mod budget;
mod event;
mod measure;
mod plan;
mod view;

pub use budget::{Budget, BudgetBook, Spent};
pub use event::{ClusterEvent, ClusterOutcome, ClusterPart, ClusterRefusal, ClusterVerdict, MoveEnd};
pub use measure::{Contended, Measure};
pub use plan::{ClusterPlan, MarkCommand, MoveCommand, PlaceCommand};
pub use view::{ClusterScope, ClusterView, HostId, HostState, Hosts, Movable, Workloads};

use crate::{Domain, Nanos, WorkloadId};

/// A cluster: hosts, workloads on them, and moves between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterDomain;

/// A cluster policy's description of itself.
#[derive(Clone, Copy, Debug)]
pub struct ClusterDescription {
    /// Its name on the command line and in scenarios.
    pub name: &'static str,
    /// Its purpose, in one sentence.
    pub summary: &'static str,
    /// Its publication, with sections; for our own policies: the place of their description.
    pub source: &'static str,
    /// Distance of its decisions; zero: only at events.
    pub interval: Nanos,
}

/// The commands that a driver supports beside placing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterCapabilities {
    /// Moves without a restart.
    pub live: bool,
    /// Ending a move before its end.
    pub cancel: bool,
}

impl Domain for ClusterDomain {
    type View = ClusterView;
    type Event = ClusterEvent;
    type Plan = ClusterPlan;
    type Signals = ();
    type Description = ClusterDescription;
    type Capabilities = ClusterCapabilities;
    type Scope = ClusterScope;
    /// The hosts of a layer; None: all.
    type Pool = Option<Vec<HostId>>;
    type Overlap = WorkloadId;
    type Impossible = ();

    fn now(view: &ClusterView) -> Nanos {
        view.now
    }

    fn scope(view: &mut ClusterView) -> &mut ClusterScope {
        &mut view.scope
    }

    fn signals(_: &ClusterDescription) {}

    fn union((): (), (): ()) {}

    fn owned(_: &ClusterDescription, workloads: Option<Vec<WorkloadId>>, pool: &Self::Pool) -> ClusterScope {
        ClusterScope { workloads, hosts: pool.clone() }
    }

    fn assign(scope: &mut ClusterScope, workloads: Option<Vec<WorkloadId>>) {
        scope.workloads = workloads;
    }

    fn lend(scope: &mut ClusterScope, pool: &Self::Pool) {
        scope.hosts.clone_from(pool);
    }

    /// Two layers overlap in a workload, whatever their hosts are: it is in one place.
    fn overlap(one: &ClusterScope, other: &ClusterScope) -> Option<WorkloadId> {
        match (&one.workloads, &other.workloads) {
            (None, None) => Some(WorkloadId(0)),
            (None, Some(some)) | (Some(some), None) => some.first().copied(),
            (Some(one), Some(other)) => one.iter().copied().find(|id| other.contains(id)),
        }
    }

    fn begin(plan: &mut ClusterPlan, number: u64) {
        plan.begin(number);
    }

    /// All layers see the same hosts: room on them is the driver's to refuse.
    fn left(_: &ClusterPlan) -> Option<&Self::Pool> {
        None
    }

    fn curb(_: &mut ClusterPlan, (): &()) {}
}
