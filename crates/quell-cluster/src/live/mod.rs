//! A cluster that lives by the clock on the wall, and its control.
//!
//! What is controlled is a [`Driver`]. The controller keeps nothing of its own on disk: it may die at any instant, and the next
//! one asks the driver what runs where.

mod status;

use std::sync::atomic::{AtomicBool, Ordering};

use quell_model::cluster::{ClusterDomain, ClusterView};
use quell_model::{Host, Layer, Stack, WorkloadId};

use crate::ClusterError;
use crate::policy::AnyClusterPolicy;

pub use status::{Board, Status};

/// A cluster under control. Its time is the wall's; a wait ends early when something happened or asked to stop.
pub trait Driver: Host<ClusterDomain, Error = ClusterError> {
    /// The name of a workload's kind; empty where there is none.
    fn kind(&self, id: WorkloadId) -> &str;

    /// Will nothing happen any more?
    fn is_over(&self) -> bool;
}

/// Controls a cluster until it is over or `stop` is set; `turned` is called after each turn.
///
/// # Errors
/// The driver's.
pub fn control<D: Driver>(
    driver: &mut D,
    policy: AnyClusterPolicy,
    stop: &AtomicBool,
    mut turned: impl FnMut(&D, &Stack<AnyClusterPolicy, ClusterDomain>),
) -> Result<(), ClusterError> {
    let Ok(mut stack) = Stack::new(vec![Layer::new(policy, None)], ClusterView::default(), None) else {
        unreachable!("one layer overlaps with no other");
    };
    while !driver.is_over() && !stop.load(Ordering::Relaxed) {
        let wake = stack.turn(driver)?;
        turned(driver, &stack);
        driver.wait(wake)?;
    }
    Ok(())
}
