//! A cluster that lives by the clock on the wall, and its control.
//!
//! What is controlled is a [`Driver`]. The controller keeps nothing of its own on disk: it may die at any instant, and the next
//! one asks the driver what runs where.

mod metrics;
mod status;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quell_model::cluster::{ClusterDomain, ClusterView, HostId};
use quell_model::{Host, Layer, Stack, WorkloadId};

use crate::ClusterError;
use crate::policy::{AnyClusterPolicy, Judged};

pub use status::{Board, Counts, Status};

/// A cluster under control. Its time is the wall's; a wait ends early when something happened or asked to stop.
pub trait Driver: Host<ClusterDomain, Error = ClusterError> {
    /// The name of a workload's kind; empty where there is none.
    fn kind(&self, id: WorkloadId) -> &str;

    /// The name of a host, where hosts have names.
    fn host_name(&self, _: HostId) -> Option<&str> {
        None
    }

    /// What was counted since the driver began.
    fn counts(&self) -> Counts {
        Counts::default()
    }

    /// Will nothing happen any more?
    fn is_over(&self) -> bool;

    /// What a person should know of it now, a line each.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// A move was judged.
    fn judged(&mut self, _: &Judged) {}
}

/// Controls a cluster until it is over or `stop` is set; `turned` is called after each turn, with the time that it took.
///
/// # Errors
/// The driver's.
pub fn control<D: Driver>(
    driver: &mut D,
    policy: AnyClusterPolicy,
    stop: &AtomicBool,
    mut turned: impl FnMut(&D, &Stack<AnyClusterPolicy, ClusterDomain>, Duration),
) -> Result<(), ClusterError> {
    let Ok(mut stack) = Stack::new(vec![Layer::new(policy, None)], ClusterView::default(), None) else {
        unreachable!("one layer overlaps with no other");
    };
    let mut latest = None;
    while !driver.is_over() && !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let wake = stack.turn(driver)?;
        let took = begun.elapsed();
        let judged = stack.layers()[0].policy.judged();
        // The list is cut at its beginning now and then: its last one says where to go on.
        let first =
            latest.and_then(|last| judged.iter().rposition(|it| Some(it) == Some(&last))).map_or(0, |at| at + 1);
        judged[first..].iter().for_each(|judged| driver.judged(judged));
        latest = judged.last().cloned();
        turned(driver, &stack, took);
        driver.wait(wake)?;
    }
    Ok(())
}
