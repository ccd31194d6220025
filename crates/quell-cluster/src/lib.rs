//! A cluster of hosts under one policy: the same loop as on a machine ([`quell_model::Stack`]), over
//! [`quell_model::cluster::ClusterDomain`].
//!
//! [`policy`] has SDC's global scheduler (snu2020 chapter 5) and its baselines, [`predict`] its model of latency, [`live`] the
//! control of a cluster that lives by the clock on the wall, [`folder`] where it answers, [`report`] what is known of
//! a workload, [`contention`] what a node publishes, `kubernetes` a cluster of Kubernetes as a driver. Policies and models are pure;
//! only `live`, `kubernetes` and the program do I/O. Simulated clusters are `quell-cluster-sim`'s.

pub mod contention;
mod error;
pub mod folder;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod live;
pub mod policy;
pub mod predict;
pub mod report;

pub use error::ClusterError;
