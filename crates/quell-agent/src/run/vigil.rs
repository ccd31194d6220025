//! Checks at intervals that Quell's settings are still in place.

use std::collections::HashSet;

use quell_linux::write::{Place, Value};
use quell_linux::{Difference, LinuxHost};
use quell_model::Nanos;

use super::membership::{Changed, Membership};
use super::{overridden, remarks};
use crate::journal::replay::same;

/// Interval of the checks.
pub const EVERY: Nanos = Nanos::from_secs(5);
/// Interval of reporting facts that the host knows already.
const REMARKS_EVERY: Nanos = Nanos::from_secs(1);
/// Bound on the number of values changed by other programs that are remembered as reported.
const MOST_NAMED: usize = 10_000;

/// Time of the last check, and the reports so far.
#[derive(Debug, Default)]
pub struct Vigil {
    next: Nanos,
    remarks_at: Nanos,
    named: HashSet<Place>,
}

impl Vigil {
    /// At its interval: reports what is so of the workloads beside their state. `real_time`: a policy makes threads real-time.
    pub fn remark(&mut self, membership: &mut Membership, host: &LinuxHost, real_time: bool, now: Nanos) {
        if now < self.remarks_at {
            return;
        }
        self.remarks_at = now + REMARKS_EVERY;
        membership.remark(|id, workload| remarks::of(host, id, workload.is_lc() && real_time));
    }

    /// At its interval: detects values of Quell's that another program changed. True if a workload was detached for
    /// that reason.
    pub fn look(&mut self, membership: &mut Membership, host: &mut LinuxHost, now: Nanos) -> Changed {
        let mut changed = Changed::default();
        if now < self.next {
            return changed;
        }
        self.next = now + EVERY;
        let found = host.differences();
        let mut left = Vec::new();
        for difference in found.into_iter().filter(|difference| difference.stood) {
            let Difference { workload, place, found, .. } = &difference;
            match (place, workload, found) {
                // Set again, or left to the other program for a while.
                (Place::File(path), Some(id), Value::Text(text)) => {
                    changed.0 |= membership.overwritten(*id, path, text, host, now).0;
                }
                // A value of a thread is set once and not fought over.
                _ => left.push(difference),
            }
        }
        membership.overridden(overridden::by_workload(&left, |id| host.thread_count(id), now), now);
        self.name_those_of_the_machine(host);
        changed
    }

    /// Logs values that belong to no workload and that another program changed, once each.
    fn name_those_of_the_machine(&mut self, host: &mut LinuxHost) {
        for touched in host.touched_of_the_machine() {
            let Ok(Some(found)) = host.standing(&touched.place) else { continue };
            if !same(&found, &touched.last) && self.named.insert(touched.place.clone()) {
                tracing::warn!(place = %touched.place, %found, "changed by another process; Quell leaves it unchanged");
            }
        }
        if self.named.len() > MOST_NAMED {
            self.named.clear();
        }
    }
}
