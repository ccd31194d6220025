//! The parameters of SDC's global scheduler, and its variants by name.

use quell_model::Nanos;
use quell_model::cluster::ClusterDescription;
use serde::{Deserialize, Serialize};

/// What begins a migration procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The predicted latency exceeds `SLO_threshold` (§5.4.2).
    Prediction,
    /// The reported latency exceeds the SLO; where none is reported, as [`Trigger::Prediction`] (ours).
    Latency,
}

/// The parameters of `sdc-global`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SdcConfig {
    /// Distance of rounds (§5.4.2: "We set the interval of global scheduler to 30 seconds").
    pub interval: Nanos,
    /// The listing as printed: no own view, no room kept for others of the round, no margin, no judgement.
    pub as_published: bool,
    /// Do others make way where no host has a lower intensity than the service's (lines 15 to 22)? Without it services alone
    /// move (§5.5.2, Figure 5.8b).
    pub others: bool,
    /// What begins a migration procedure.
    pub trigger: Trigger,
    /// A destination's contention, the newcomer included, is below the source's by this part of it (ours).
    pub margin: f64,
    /// Workloads that one host takes in a round, and that leave one host in a round (ours).
    pub a_round: u32,
    /// Services use at most this part of a destination's cores, the newcomer included (ours: memory intensity does not see
    /// that they need CPUs, too).
    pub services: f64,
    /// Are moves judged, and services for which they did not help left alone for longer and longer (ours)?
    pub verify: bool,
    /// A move is given up after this time (ours).
    pub deadline: Nanos,
    /// Does it place what waits? Not beside a scheduler that does (ours).
    pub places: bool,
    /// Does it move workloads?
    pub moves: bool,
    /// Does it mark hosts by their contention, for a scheduler beside it (ours)?
    pub marks: bool,
    /// Do others move before services, those with a known intensity (ours)?
    pub others_first: bool,
}

impl Default for SdcConfig {
    fn default() -> SdcConfig {
        SdcConfig {
            interval: Nanos::from_secs(30),
            as_published: false,
            others: true,
            trigger: Trigger::Latency,
            margin: 0.1,
            a_round: 1,
            services: 0.7,
            verify: true,
            deadline: Nanos::from_secs(300),
            places: true,
            moves: true,
            marks: false,
            others_first: false,
        }
    }
}

impl SdcConfig {
    /// The paper's.
    #[must_use]
    pub fn published() -> SdcConfig {
        SdcConfig {
            as_published: true,
            trigger: Trigger::Prediction,
            margin: 0.0,
            a_round: u32::MAX,
            services: f64::MAX,
            verify: false,
            ..SdcConfig::default()
        }
    }

    /// Beside a scheduler that places what waits and prefers hosts with lower marks.
    #[must_use]
    pub fn beside(moves: bool) -> SdcConfig {
        SdcConfig { places: false, moves, marks: true, others_first: true, ..SdcConfig::default() }
    }

    /// As published, beside a scheduler that places what waits.
    #[must_use]
    pub fn published_beside() -> SdcConfig {
        SdcConfig { places: false, ..SdcConfig::published() }
    }

    /// The variant against which the paper compares: services alone move.
    #[must_use]
    pub fn alone() -> SdcConfig {
        SdcConfig { others: false, ..SdcConfig::published() }
    }
}

/// A policy of this module.
const fn described(name: &'static str, summary: &'static str, source: &'static str) -> ClusterDescription {
    ClusterDescription { name, summary, source, interval: Nanos::from_secs(30) }
}

pub(super) const DESCRIPTION: ClusterDescription = described(
    "sdc-global",
    "services go where memory is least contended, and others make way; each move is judged",
    "SDC: dissertation, Seoul National University 2020, chapter 5 (Algorithm 5.1); docs/lab/cluster.md",
);

pub(super) const PUBLISHED: ClusterDescription = described(
    "sdc-published",
    "Algorithm 5.1 as printed",
    "SDC: dissertation, Seoul National University 2020, chapter 5 (Algorithm 5.1)",
);

pub(super) const ALONE: ClusterDescription = described(
    "sdc-alone",
    "Algorithm 5.1 without lines 15 to 22: services alone move",
    "SDC: dissertation, Seoul National University 2020, chapter 5 (Figure 5.8b)",
);

pub(super) const BESIDE: ClusterDescription = described(
    "sdc-beside",
    "beside a scheduler that prefers hosts with less contention: others move first; each move is judged",
    "ours, after SDC's Algorithm 5.1: docs/operate/cluster.md",
);

pub(super) const TAINTS: ClusterDescription = described(
    "sdc-taints",
    "beside a scheduler that prefers hosts with less contention: no moves",
    "ours: docs/operate/cluster.md",
);
