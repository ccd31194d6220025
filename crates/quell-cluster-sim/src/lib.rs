//! A simulated cluster of hosts, in two grains: coarse (hosts in balance, services as queues, moves as rounds of copying) and
//! exact (each host a simulated machine under its own policy).
//!
//! [`scenario`] describes one, [`sim`] simulates it, [`grains`] compares the two grains, [`fake`] is one behind the nodes of a real
//! scheduler, [`live`] lets it go on by the clock on the
//! wall. Only `live` does I/O.

pub mod fake;
pub mod grains;
pub mod live;
pub mod report;
pub mod scenario;
pub mod sim;

pub use quell_cluster::ClusterError;

/// The page of docs/extend whose code is compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/extend/cluster.md")]
    struct Cluster;
}
