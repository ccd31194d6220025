//! Checks at intervals that Quell's settings are still in place.

use std::collections::HashSet;

use quell_linux::LinuxHost;
use quell_linux::write::{Place, Value};
use quell_model::Nanos;

use super::membership::{Changed, Membership};
use crate::journal::replay::same;

/// Interval of the checks.
pub const EVERY: Nanos = Nanos::from_secs(5);
/// Bound on the number of values changed by other programs that are remembered as reported.
const MOST_NAMED: usize = 10_000;

/// Time of the last check, and the reports so far.
#[derive(Debug, Default)]
pub struct Vigil {
    next: Nanos,
    named: HashSet<Place>,
}

impl Vigil {
    /// At its interval: detects values of Quell's that another program changed. True if a workload was detached for
    /// that reason.
    pub fn look(&mut self, membership: &mut Membership, host: &mut LinuxHost, now: Nanos) -> Changed {
        let mut changed = Changed::default();
        if now < self.next {
            return changed;
        }
        self.next = now + EVERY;
        for touched in host.touched() {
            let Ok(Some(found)) = host.standing(&touched.place) else { continue };
            if same(&found, &touched.last) {
                continue;
            }
            match (&touched.place, touched.workload, &found) {
                (Place::File(path), Some(id), Value::Text(text)) => {
                    changed.0 |= membership.overwritten(id, path, text, host, now).0;
                }
                // A value of a thread is set once and not fought over.
                _ if self.named.insert(touched.place.clone()) => {
                    tracing::info!(place = %touched.place, %found, "somebody else changed it; Quell leaves it so");
                }
                _ => {}
            }
        }
        if self.named.len() > MOST_NAMED {
            self.named.clear();
        }
        changed
    }
}
