//! Rules: actions that a host takes by itself, at the event, because a policy in user space would be too late.
//!
//! Each rule is defined here by one pure function. The simulator runs these functions; the BPF program is tested
//! against them.

mod ban;
mod occupancy;
mod progress;
mod server;
mod together;

use serde::{Deserialize, Serialize};

use crate::{CpuId, Nanos, WorkloadId};

pub use ban::ban_holds;
pub use occupancy::{Occupancy, Standing, next_holder, on_wake_up};
pub use progress::{Bounds, Waiting, next_by_progress};
pub use server::DeferrableServer;
pub use together::overtakes;

/// A standing order to the host. A new one replaces the one with the same [`Rule::key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// At a wake-up the workload gets CPUs at once, up to `cpus`, from workloads with less right to them:
    /// [`on_wake_up`]. Zero removes the rule.
    Guaranteed {
        /// The workload.
        workload: WorkloadId,
        /// Number of CPUs.
        cpus: u32,
    },
    /// At a wake-up the workload also gets CPUs of best-effort work at once, up to `cpus`: [`on_wake_up`]. Zero removes
    /// the rule.
    Burst {
        /// The workload.
        workload: WorkloadId,
        /// Number of CPUs, the guaranteed ones included.
        cpus: u32,
    },
    /// Upper bound on the number of CPUs that the workload holds: [`on_wake_up`], [`next_holder`].
    Limit {
        /// The workload.
        workload: WorkloadId,
        /// Number of CPUs.
        cpus: u32,
    },
    /// The workload's rank among the candidates for a yielded CPU. The lowest rank is first; of equals, the workload
    /// that holds the fewest CPUs: [`next_holder`].
    Rank {
        /// The workload.
        workload: WorkloadId,
        /// The rank.
        rank: u32,
    },
    /// The CPU's siblings are parked until the end of the request that started at `request_start`: [`ban_holds`].
    /// [`Rule::NO_REQUEST`] removes the rule.
    SiblingBan {
        /// The CPU that works on the request.
        cpu: CpuId,
        /// Start of the request.
        request_start: Nanos,
    },
    /// The workload runs on this CPU as a deferrable server: [`DeferrableServer`]. A budget of zero removes the rule.
    Server {
        /// The workload.
        workload: WorkloadId,
        /// The CPU.
        cpu: CpuId,
        /// CPU time per period.
        budget: Nanos,
        /// The period.
        period: Nanos,
        /// Fixed priority among the CPU's servers; higher runs first.
        priority: u32,
    },
    /// Workloads hold CPUs as one: the workload's threads are in the queue of `leader`, whose CPUs and rights count for all.
    /// Itself: it leads. `None` removes the rule; so does the leader's end.
    Together {
        /// The workload.
        workload: WorkloadId,
        /// Whose CPUs it shares.
        leader: Option<WorkloadId>,
        /// The queue's order: the leader's rule says it.
        #[serde(default)]
        order: QueueOrder,
    },
}

/// Order of the queue of workloads that hold CPUs as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueOrder {
    /// By weighted run time: of one workload's threads those with the larger weight get more. A thread that wakes up may take
    /// the CPU of one that is far ahead: [`overtakes`].
    #[default]
    Weight,
    /// First come, first served among the threads of workloads within their share, without preemption among them:
    /// [`next_by_progress`].
    Progress,
}

/// A rule without its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleKind {
    /// [`Rule::Guaranteed`].
    Guaranteed,
    /// [`Rule::Burst`].
    Burst,
    /// [`Rule::Limit`].
    Limit,
    /// [`Rule::Rank`].
    Rank,
    /// [`Rule::SiblingBan`].
    SiblingBan,
    /// [`Rule::Server`].
    Server,
    /// [`Rule::Together`].
    Together,
}

impl RuleKind {
    /// Every kind.
    pub const ALL: &'static [RuleKind] = &[
        RuleKind::Guaranteed,
        RuleKind::Burst,
        RuleKind::Limit,
        RuleKind::Rank,
        RuleKind::SiblingBan,
        RuleKind::Server,
        RuleKind::Together,
    ];

    /// Its name in field terms.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RuleKind::Guaranteed => "guaranteed CPUs on wake-up",
            RuleKind::Burst => "burstable CPUs on wake-up",
            RuleKind::Limit => "CPU limit",
            RuleKind::Rank => "succession on yield",
            RuleKind::SiblingBan => "sibling ban until the request ends",
            RuleKind::Server => "deferrable server",
            RuleKind::Together => "CPUs held as one",
        }
    }
}

impl Rule {
    /// A start that no request has: a sibling ban for it does not hold.
    pub const NO_REQUEST: Nanos = Nanos::MAX;

    /// The rule without its values.
    #[must_use]
    pub fn kind(&self) -> RuleKind {
        match self {
            Rule::Guaranteed { .. } => RuleKind::Guaranteed,
            Rule::Burst { .. } => RuleKind::Burst,
            Rule::Limit { .. } => RuleKind::Limit,
            Rule::Rank { .. } => RuleKind::Rank,
            Rule::SiblingBan { .. } => RuleKind::SiblingBan,
            Rule::Server { .. } => RuleKind::Server,
            Rule::Together { .. } => RuleKind::Together,
        }
    }

    /// Identity for replacement: the rule's kind, workload and CPU.
    #[must_use]
    pub fn key(&self) -> (RuleKind, Option<WorkloadId>, Option<CpuId>) {
        match *self {
            Rule::Guaranteed { workload, .. }
            | Rule::Burst { workload, .. }
            | Rule::Limit { workload, .. }
            | Rule::Rank { workload, .. }
            | Rule::Together { workload, .. } => (self.kind(), Some(workload), None),
            Rule::SiblingBan { cpu, .. } => (self.kind(), None, Some(cpu)),
            Rule::Server { workload, cpu, .. } => (self.kind(), Some(workload), Some(cpu)),
        }
    }
}
