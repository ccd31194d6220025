//! A cluster of hosts under one policy: the same loop as on a machine ([`quell_model::Stack`]), over
//! [`quell_model::cluster::ClusterDomain`].
//!
//! [`policy`] has SDC's global scheduler (snu2020 chapter 5) and its baselines, [`predict`] its model of latency, [`sim`] a
//! simulated cluster, [`scenario`] its description, [`grains`] the comparison of its two grains, [`live`] the control of a cluster that
//! lives by the clock on the wall. Policies and models are pure; only `live` and the program do I/O.

mod error;
pub mod grains;
pub mod live;
pub mod policy;
pub mod predict;
pub mod report;
pub mod scenario;
pub mod sim;

pub use error::ClusterError;

/// The page of docs/write whose code is compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/write/cluster.md")]
    struct Cluster;
}
