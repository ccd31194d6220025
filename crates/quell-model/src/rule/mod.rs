//! Rules: what a host does by itself, at the event, because a policy in user space would be too late.
//!
//! Each rule is defined here by one pure function. The simulator runs these functions; kernel programs are tested
//! against them.

mod ban;
mod occupancy;
mod server;

use serde::{Deserialize, Serialize};

use crate::{CpuId, Nanos, WorkloadId};

pub use ban::ban_holds;
pub use occupancy::{Occupancy, Standing, heir, on_wake_up};
pub use server::DeferrableServer;

/// A standing order to the host. A new one replaces the one with the same [`Rule::key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// When this workload wakes up it gets CPUs at once, up to so many, from whoever has less right to them:
    /// [`on_wake_up`]. Zero takes the rule back.
    Guaranteed {
        /// Whose.
        workload: WorkloadId,
        /// How many CPUs.
        cpus: u32,
    },
    /// When this workload wakes up it also gets CPUs at once that best-effort work has, up to so many: [`on_wake_up`].
    /// Zero takes the rule back.
    Burst {
        /// Whose.
        workload: WorkloadId,
        /// How many CPUs, the guaranteed ones included.
        cpus: u32,
    },
    /// This workload holds at most so many CPUs: [`on_wake_up`], [`heir`].
    Limit {
        /// Whose.
        workload: WorkloadId,
        /// How many CPUs.
        cpus: u32,
    },
    /// This workload's place in the line for a CPU that somebody yields; the lowest rank is first, and of equals who holds
    /// the fewest CPUs: [`heir`].
    Rank {
        /// Whose.
        workload: WorkloadId,
        /// The place.
        rank: u32,
    },
    /// This CPU's siblings are parked until the request that it began at this time ends: [`ban_holds`].
    /// [`Rule::NO_REQUEST`] takes it back.
    SiblingBan {
        /// The CPU that works on the request.
        cpu: CpuId,
        /// When the request began.
        request_start: Nanos,
    },
    /// On this CPU the workload runs as a deferrable server: [`DeferrableServer`]. A budget of zero takes it back.
    Server {
        /// Whose.
        workload: WorkloadId,
        /// Where.
        cpu: CpuId,
        /// CPU time per period.
        budget: Nanos,
        /// The period.
        period: Nanos,
        /// Fixed priority among the CPU's servers; higher runs first.
        priority: u32,
    },
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
        }
    }

    /// What a rule is replaced by: its kind, and the workload and CPU that it is about.
    #[must_use]
    pub fn key(&self) -> (RuleKind, Option<WorkloadId>, Option<CpuId>) {
        match *self {
            Rule::Guaranteed { workload, .. }
            | Rule::Burst { workload, .. }
            | Rule::Limit { workload, .. }
            | Rule::Rank { workload, .. } => (self.kind(), Some(workload), None),
            Rule::SiblingBan { cpu, .. } => (self.kind(), None, Some(cpu)),
            Rule::Server { workload, cpu, .. } => (self.kind(), Some(workload), Some(cpu)),
        }
    }
}
