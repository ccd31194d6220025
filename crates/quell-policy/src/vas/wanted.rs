//! The interface that a workload's demand asks for.

use quell_model::Workload;
use quell_model::demand::Asks;

use super::analysis::Analysis;
use super::busy::Busy;
use super::interface::{Interface, Margin};
use super::poisson::least_budget;
use super::task::{Releases, TaskSet};

/// The analysis of more releases in a hyperperiod would hold the loop up: about 20 ms of it.
const MOST_RELEASES: u64 = 100_000;

/// The recommended interface of a workload; None: it has no demand. Tasks and random requests get the margin on top, a
/// budget is taken as it is.
///
/// # Errors
/// A sentence with the fix.
pub fn interface(workload: &Workload, margin: Margin) -> Result<Option<Interface>, String> {
    let Some(demand) = &workload.demand else { return Ok(None) };
    demand.check()?;
    let interface = match &demand.asks {
        Asks::Server { budget, period } => Interface { budget: *budget, period: *period },
        Asks::Tasks { tasks, sporadic } => {
            let releases = if *sporadic { Releases::Sporadic } else { Releases::Periodic };
            let set = TaskSet::new(tasks.clone(), releases).map_err(|error| error.to_string())?;
            if set.release_count() > MOST_RELEASES {
                return Err(format!(
                    "its tasks have {} releases in a hyperperiod, and the loop works out {MOST_RELEASES} at most: give the \
                     budget and period that `quell vas --config` prints",
                    set.release_count()
                ));
            }
            Analysis::least(&Busy::of(&set), margin).recommended
        }
        Asks::Poisson { stream, period } => {
            let Some(slo) = workload.slo else {
                return Err("random requests have no latency to keep: give an slo".into());
            };
            let reached = least_budget(stream, *period, slo.quantile, slo.bound).map_err(|error| error.to_string())?;
            reached.interface.with(margin)
        }
    };
    Ok(Some(interface))
}
