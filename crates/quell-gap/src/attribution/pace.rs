//! When the next burst is due.

use quell_model::Nanos;

use super::{Budget, Ledger};

/// From burst to burst while something waits.
const EVERY: Nanos = Nanos::from_secs(10);
/// And where a workload waits much more than before, at least.
const LEAST: Nanos = Nanos::from_secs(2);
/// A workload with less than this per time does not count as waiting.
const WAITS: f64 = 0.001;
/// Threads that wait, on average, from which a burst is due at once …
const MUCH: f64 = 0.05;
/// … if it is this many times what the latest burst saw.
const MORE: f64 = 2.0;
/// Lengths of a burst, the usual one first.
const LENGTHS: [Nanos; 3] = [Nanos::from_secs(1), Nanos::from_millis(400), Nanos::from_millis(200)];

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing yet.
    No,
    /// A burst of this length.
    Burst(Nanos),
    /// One would be due, and cannot be paid.
    Unaffordable,
}

/// The bursts' rhythm.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    ended: Option<Nanos>,
    limited_since: Option<Nanos>,
}

impl Pace {
    /// Is one due, with these workloads?
    pub fn look<'a>(&mut self, now: Nanos, budget: &Budget, ledgers: impl Iterator<Item = &'a Ledger>) -> Due {
        let since = self.ended.map_or(Nanos::MAX, |ended| now.since(ended));
        if since < LEAST || !is_due(now, since, ledgers) {
            return Due::No;
        }
        match budget.affords(&LENGTHS) {
            Some(length) => {
                self.limited_since = None;
                Due::Burst(length)
            }
            None => {
                self.limited_since.get_or_insert(now);
                Due::Unaffordable
            }
        }
    }

    /// A burst has ended.
    pub fn ended(&mut self, now: Nanos) {
        self.ended = Some(now);
    }

    /// When the last one ended.
    #[must_use]
    pub fn last(&self) -> Option<Nanos> {
        self.ended
    }

    /// Since when bursts are rarer than they should be.
    #[must_use]
    pub fn limited_since(&self) -> Option<Nanos> {
        self.limited_since
    }

    /// The shortest burst.
    #[must_use]
    pub fn shortest() -> Nanos {
        LENGTHS[LENGTHS.len() - 1]
    }
}

fn is_due<'a>(now: Nanos, since: Nanos, ledgers: impl Iterator<Item = &'a Ledger>) -> bool {
    let mut some_wait = false;
    for ledger in ledgers {
        let rate = ledger.rate(now);
        let known = ledger.latest().map_or(0.0, |burst| burst.waited.0 as f64 / burst.length().0.max(1) as f64);
        if rate >= MUCH && rate >= MORE * known {
            return true;
        }
        some_wait |= ledger.unsettled().0 as f64 >= WAITS * since.min(EVERY).0 as f64;
    }
    some_wait && since >= EVERY
}
