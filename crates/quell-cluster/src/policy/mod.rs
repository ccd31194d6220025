//! The cluster policies: SDC's global scheduler and its baselines.

mod baseline;
mod beside;
mod config;
mod drs;
mod kit;
mod mark;
mod sdc;
mod verify;

use quell_model::cluster::{ClusterDescription, ClusterDomain, ClusterEvent, ClusterPlan, ClusterView};
use quell_model::{Policy, Wake};
use serde::{Deserialize, Serialize};

pub use baseline::{Baseline, Rule};
pub use beside::Beside;
pub use config::{SdcConfig, Trigger};
pub use drs::{Drs, DrsConfig};
pub use mark::Marker;
pub use sdc::SdcGlobal;
pub use verify::{Judged, Verdict, Verify};

use crate::ClusterError;

/// Any of the policies. Clone and Serialize, so that a run can be replayed and a decision explained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnyClusterPolicy {
    /// SDC, by the default or as published.
    Sdc(SdcGlobal),
    /// Placement by a published rule, without moves.
    Baseline(Baseline),
    /// Entitlement evened out.
    Drs(Drs),
    /// SDC's marks and moves, and the default scheduler, which prefers hosts with lower marks.
    Beside(Box<Beside>),
}

/// Every name, with what it stands for.
pub const ALL: &[ClusterDescription] = &[
    config::DESCRIPTION,
    config::PUBLISHED,
    config::ALONE,
    config::BESIDE,
    config::TAINTS,
    baseline::NONE,
    baseline::RANDOM,
    baseline::NOVA_FILTER,
    baseline::LEAST_ALLOCATED,
    drs::DESCRIPTION,
];

impl AnyClusterPolicy {
    /// The policy of this name; the seed is that of its own choices among equals.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str, seed: u64) -> Result<AnyClusterPolicy, ClusterError> {
        let baseline = |rule| AnyClusterPolicy::Baseline(Baseline::new(rule, seed));
        Ok(match name {
            "sdc-global" => AnyClusterPolicy::Sdc(SdcGlobal::new(SdcConfig::default())),
            "sdc-published" => AnyClusterPolicy::Sdc(SdcGlobal::new(SdcConfig::published())),
            "sdc-alone" => AnyClusterPolicy::Sdc(SdcGlobal::new(SdcConfig::alone())),
            "sdc-beside" => AnyClusterPolicy::Beside(Box::new(Beside::new(true, seed))),
            "sdc-taints" => AnyClusterPolicy::Beside(Box::new(Beside::new(false, seed))),
            "none" => baseline(Rule::FirstFit),
            "random" => baseline(Rule::Random),
            "nova-filter" => baseline(Rule::MostMemory),
            "least-allocated" => baseline(Rule::LeastAllocated),
            "drs" => AnyClusterPolicy::Drs(Drs::new(DrsConfig::default())),
            _ => {
                let known: Vec<&str> = ALL.iter().map(|policy| policy.name).collect();
                let near = known
                    .iter()
                    .copied()
                    .max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
                let hint = near.filter(|near| strsim::jaro_winkler(near, name) > 0.8);
                let known = known.join(", ") + &hint.map(|hint| format!("; did you mean {hint}?")).unwrap_or_default();
                return Err(ClusterError::Policy { name: name.into(), known });
            }
        })
    }

    /// The judged moves, where the policy verifies its own.
    #[must_use]
    pub fn judged(&self) -> &[Judged] {
        match self {
            AnyClusterPolicy::Sdc(sdc) => sdc.judged(),
            AnyClusterPolicy::Beside(beside) => beside.judged(),
            AnyClusterPolicy::Baseline(_) | AnyClusterPolicy::Drs(_) => &[],
        }
    }
}

impl Policy<ClusterDomain> for AnyClusterPolicy {
    fn describe(&self) -> &'static ClusterDescription {
        match self {
            AnyClusterPolicy::Sdc(policy) => policy.describe(),
            AnyClusterPolicy::Baseline(policy) => policy.describe(),
            AnyClusterPolicy::Drs(policy) => policy.describe(),
            AnyClusterPolicy::Beside(policy) => policy.describe(),
        }
    }

    fn step(&mut self, view: &ClusterView, events: &[ClusterEvent], plan: &mut ClusterPlan) -> Wake {
        match self {
            AnyClusterPolicy::Sdc(policy) => policy.step(view, events, plan),
            AnyClusterPolicy::Baseline(policy) => policy.step(view, events, plan),
            AnyClusterPolicy::Drs(policy) => policy.step(view, events, plan),
            AnyClusterPolicy::Beside(policy) => policy.step(view, events, plan),
        }
    }
}
