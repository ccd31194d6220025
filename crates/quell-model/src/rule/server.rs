//! The deferrable server (Strosnider, Lehoczky, Sha 1995; vas-rtns21 §3): a budget per period that is kept while there
//! is nothing to run and lost at the end of the period.

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// A server's parameters and the rest of its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeferrableServer {
    budget: Nanos,
    period: Nanos,
    left: Nanos,
    next_period: Nanos,
    /// Budget and period from then on.
    next: (Nanos, Nanos),
}

impl DeferrableServer {
    /// A server whose first period begins now, with a full budget. The budget is cut to the period; a period of zero
    /// is taken as one nanosecond.
    #[must_use]
    pub fn new(budget: Nanos, period: Nanos, now: Nanos) -> DeferrableServer {
        let (budget, period) = cut(budget, period);
        DeferrableServer { budget, period, left: budget, next_period: now + period, next: (budget, period) }
    }

    /// Sets other parameters, in effect from the next period on: this period's remaining budget stays. Setting the same
    /// ones again changes nothing, so that a period has no second budget.
    pub fn set(&mut self, budget: Nanos, period: Nanos, now: Nanos) {
        self.left(now);
        self.next = cut(budget, period);
    }

    /// CPU time that the server may use from `now` on before it must stop, without a further period's budget.
    pub fn left(&mut self, now: Nanos) -> Nanos {
        if now >= self.next_period {
            (self.budget, self.period) = self.next;
            let periods = (now - self.next_period).0 / self.period.0 + 1;
            self.next_period += Nanos(periods * self.period.0);
            self.left = self.budget;
        }
        self.left
    }

    /// Reports that the server ran for this long up to `now`. A run that crosses the end of a period must be reported
    /// in parts, one a period. Returns the time beyond the budget: an overrun, which is not carried over.
    pub fn ran(&mut self, span: Nanos, now: Nanos) -> Nanos {
        let overrun = span - self.left;
        self.left = self.left - span;
        self.left(now);
        overrun
    }

    /// Time of the next full budget.
    #[must_use]
    pub fn replenished_at(&self) -> Nanos {
        self.next_period
    }
}

/// A valid period, and a budget that fits into it.
fn cut(budget: Nanos, period: Nanos) -> (Nanos, Nanos) {
    let period = period.max(Nanos(1));
    (budget.min(period), period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_budget_is_kept_while_idle_and_full_at_every_period() {
        let mut server = DeferrableServer::new(Nanos(3), Nanos(10), Nanos(0));
        assert_eq!(server.left(Nanos(9)), Nanos(3));
        server.ran(Nanos(1), Nanos(9));
        assert_eq!(server.left(Nanos(9)), Nanos(2));
        assert_eq!(server.left(Nanos(10)), Nanos(3), "what was left is lost, not added");
        assert_eq!(server.left(Nanos(57)), Nanos(3));
        assert_eq!(server.replenished_at(), Nanos(60));
    }

    #[test]
    fn what_ran_beyond_the_budget_is_told_and_not_carried_over() {
        let mut server = DeferrableServer::new(Nanos(3), Nanos(10), Nanos(0));
        assert_eq!(server.ran(Nanos(2), Nanos(2)), Nanos::ZERO);
        assert_eq!(server.ran(Nanos(3), Nanos(5)), Nanos(2));
        assert_eq!((server.left(Nanos(5)), server.left(Nanos(10))), (Nanos::ZERO, Nanos(3)));
    }

    #[test]
    fn another_budget_counts_from_the_next_period() {
        let mut server = DeferrableServer::new(Nanos(3), Nanos(10), Nanos(0));
        server.ran(Nanos(2), Nanos(4));
        server.set(Nanos(8), Nanos(20), Nanos(5));
        assert_eq!((server.left(Nanos(5)), server.replenished_at()), (Nanos(1), Nanos(10)));
        assert_eq!((server.left(Nanos(10)), server.replenished_at()), (Nanos(8), Nanos(30)));
        server.set(Nanos(2), Nanos(10), Nanos(95));
        assert_eq!((server.left(Nanos(95)), server.replenished_at()), (Nanos(8), Nanos(110)));
        assert_eq!((server.left(Nanos(123)), server.replenished_at()), (Nanos(2), Nanos(130)));
    }

    proptest! {
        /// Set again at any time, the same parameters neither fill the budget nor move the periods.
        #[test]
        fn the_same_rule_again_changes_nothing(
            budget in 1u64..10,
            slack in 0u64..20,
            turns in proptest::collection::vec(any::<(bool, bool)>(), 200),
        ) {
            let (budget, period) = (Nanos(budget), Nanos(budget + slack));
            let mut once = DeferrableServer::new(budget, period, Nanos(0));
            let mut again = once;
            for (at, (wants, sets)) in turns.into_iter().enumerate() {
                let now = Nanos(at as u64);
                if sets {
                    again.set(budget, period, now);
                }
                prop_assert_eq!(once.left(now), again.left(now));
                if wants && once.left(now) > Nanos::ZERO {
                    once.ran(Nanos(1), now + Nanos(1));
                    again.ran(Nanos(1), now + Nanos(1));
                }
                prop_assert_eq!(once, again);
            }
        }

        /// The known worst case of a deferrable server: back to back at a period's end and the next one's start, it
        /// gets at most two budgets in any window of one budget's length plus a period.
        #[test]
        fn demand_stays_within_the_deferrable_bound(
            budget in 1u64..10,
            slack in 0u64..20,
            wants in proptest::collection::vec(any::<bool>(), 200),
        ) {
            let period = budget + slack;
            let mut server = DeferrableServer::new(Nanos(budget), Nanos(period), Nanos(0));
            let mut ran = Vec::new();
            for (at, wants) in wants.into_iter().enumerate() {
                let now = Nanos(at as u64);
                let runs = wants && server.left(now) > Nanos::ZERO;
                if runs {
                    server.ran(Nanos(1), now + Nanos(1));
                }
                ran.push(u64::from(runs));
            }
            for window in ran.windows(period as usize) {
                prop_assert!(window.iter().sum::<u64>() <= 2 * budget);
            }
            for whole in ran.chunks_exact(period as usize) {
                prop_assert!(whole.iter().sum::<u64>() <= budget);
            }
        }
    }
}
