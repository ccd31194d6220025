//! Experiments with a known outcome, for tests and for `quell-lab paper`: simulated queues and what theory says about
//! them, shares of CPUs that weights and quotas promise, task sets whose schedules SimSo has worked out, and the papers'
//! evaluations.

pub mod assumed;
pub mod caladan;
pub mod dasec;
pub mod edgeiso;
pub mod his;
pub mod queueing;
pub mod rkube;
pub mod sdc;
pub mod shares;
pub mod task_sets;
pub mod theory;
pub mod trials;
pub mod usual;
pub mod vas;
