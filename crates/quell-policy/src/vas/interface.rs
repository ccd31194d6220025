//! A server's budget and period, and the safety margin.

use quell_model::Nanos;

/// A server at the highest priority of its CPU: so much time every period (vas-rtns21 §3.2, without the priority).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// B, at most the period.
    pub budget: Nanos,
    /// P, above zero.
    pub period: Nanos,
}

impl Interface {
    /// W = B / P, the bandwidth: 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.budget.0 as f64 / self.period.0 as f64
    }

    /// Is it the whole CPU?
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.budget >= self.period
    }

    /// Longest wait of all other work, whatever the service does: two budgets, at a period's end and at the next one's
    /// beginning. None: unbounded, since the CPU is the server's.
    #[must_use]
    pub fn blackout(&self) -> Option<Nanos> {
        (!self.is_whole()).then(|| self.budget + self.budget)
    }

    /// With a margin; a whole CPU if that is not enough.
    #[must_use]
    pub fn with(self, margin: Margin) -> Interface {
        Interface { budget: (self.budget + margin.of(self.period)).min(self.period), period: self.period }
    }

    /// Is its bandwidth smaller, or as small with a shorter period?
    pub(super) fn is_better_than(&self, other: &Interface) -> bool {
        let wide = |a: Nanos, b: Nanos| u128::from(a.0) * u128::from(b.0);
        let (own, others) = (wide(self.budget, other.period), wide(other.budget, self.period));
        own < others || own == others && self.period < other.period
    }
}

/// A share of a CPU that is added to a budget for demand beyond the tasks: overheads, interrupts, kernel threads
/// (vas-rtns21 §5: 5 %, meant as points: 76 becomes 81).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margin {
    millionths: u32,
}

impl Margin {
    /// Nothing is added.
    pub const NONE: Margin = Margin { millionths: 0 };
    /// The paper's value.
    pub const USUAL: Margin = Margin { millionths: 50_000 };

    /// This many points (hundredths) of a CPU, 0 to 100, to the fourth decimal; None if the text is something else.
    #[must_use]
    pub fn points(points: f64) -> Option<Margin> {
        (0.0..=100.0).contains(&points).then(|| Margin { millionths: (points * 10_000.0).round() as u32 })
    }

    /// Its time in a period, rounded up.
    #[must_use]
    pub fn of(self, period: Nanos) -> Nanos {
        let product = u128::from(period.0) * u128::from(self.millionths);
        Nanos(product.div_ceil(1_000_000) as u64)
    }

    /// The time that a period has beside the margin is more than this budget from this period on. None: never.
    pub(super) fn leaves_more_than(self, budget: Nanos) -> Option<Nanos> {
        let left = 1_000_000u128.checked_sub(u128::from(self.millionths)).filter(|left| *left > 0)?;
        // The margin's time is rounded up, which may cost a nanosecond more.
        let mut period = u128::from(budget.0) * 1_000_000 / left;
        while period - (period * u128::from(self.millionths)).div_ceil(1_000_000) <= u128::from(budget.0) {
            period += 1;
        }
        u64::try_from(period).ok().map(Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_points_of_a_cpu_and_ends_at_a_whole_one() {
        let least = Interface { budget: Nanos(1520), period: Nanos(2000) };
        assert_eq!(least.with(Margin::USUAL), Interface { budget: Nanos(1620), period: Nanos(2000) });
        let whole = least.with(Margin::points(30.0).unwrap());
        assert!(whole.is_whole() && whole.blackout().is_none());
        assert_eq!(least.blackout(), Some(Nanos(3040)));
        assert!(Margin::points(-0.1).is_none() && Margin::points(f64::NAN).is_none());
    }

    #[test]
    fn the_period_beside_a_margin_is_the_first_one() {
        for (margin, budget) in [(0.0, 7), (5.0, 7), (5.0, 580_000), (33.3333, 1), (99.9999, 3)] {
            let margin = Margin::points(margin).unwrap();
            let period = margin.leaves_more_than(Nanos(budget)).unwrap();
            let left = |period: Nanos| (period - margin.of(period)).0;
            assert!(left(period) > budget && left(period - Nanos(1)) <= budget, "{margin:?} {budget}: {period:?}");
        }
        assert_eq!(Margin::points(100.0).unwrap().leaves_more_than(Nanos(1)), None);
    }
}
