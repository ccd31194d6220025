//! Choice of an interface: the least one, one for a given period, or the least whose blackout keeps a bound.

use quell_model::Nanos;

use super::busy::Busy;
use super::curve::{Curve, Flat};
use super::error::VasError;
use super::interface::{Interface, Margin};

/// Longest wait of all other work for the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// While the tasks do what they say.
    pub conforming: Option<Nanos>,
    /// Whatever they do.
    pub enforced: Option<Nanos>,
}

/// An interface for a service, with its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Analysis {
    /// The smallest budget for its period: with a nanosecond less some arrivals find it exhausted.
    pub interface: Interface,
    /// A shorter period with the same bandwidth, if there is one.
    pub shorter: Option<Interface>,
    /// The interface, with the shorter period if there is one, and the margin.
    pub recommended: Interface,
    /// Longest wait of all other work while the tasks do what they say, under every interface.
    pub conforming: Nanos,
    /// Were all periods looked at? Otherwise a period between those of a sampled [`Curve`] may need a smaller bandwidth.
    pub is_exact: bool,
}

impl Analysis {
    /// The least interface (Theorem 4.2).
    #[must_use]
    pub fn least(busy: &Busy, margin: Margin) -> Analysis {
        let (least, shortest) = (busy.least(), busy.shortest());
        let shorter = (shortest != least).then_some(shortest);
        Analysis { shorter, recommended: shortest.with(margin), ..Analysis::with(busy, margin, least) }
    }

    /// The smallest budget for this period.
    ///
    /// # Errors
    /// For a period of zero.
    pub fn at(busy: &Busy, margin: Margin, period: Nanos) -> Result<Analysis, VasError> {
        if period == Nanos::ZERO {
            return Err(VasError::Value { what: "a period of 0; give one above zero, such as 10ms".into() });
        }
        Ok(Analysis::with(busy, margin, Interface { budget: busy.budget(period), period }))
    }

    /// The least bandwidth with which the blackouts stay within the bounds, and the shortest period with it. The margin
    /// counts: the recommended interface is the one that will be enforced.
    ///
    /// # Errors
    /// [`VasError::Impossible`] with the least bound that can be kept.
    pub fn within(busy: &Busy, margin: Margin, bounds: Bounds) -> Result<Analysis, VasError> {
        let longest = busy.longest();
        if bounds.conforming.is_some_and(|bound| longest > bound) {
            return Err(VasError::Impossible {
                least: longest,
                why: "the tasks keep the CPU busy for this long at once",
            });
        }
        let Some(bound) = bounds.enforced else { return Ok(Analysis::least(busy, margin)) };
        let fits = |interface: Interface| interface.with(margin).blackout().is_some_and(|blackout| blackout <= bound);
        let curve = Curve::of(busy);
        let last = longest_period(busy, margin, bound);
        let ends = curve.flats.iter().map(Flat::end).take_while(|end| end.period < last);
        let all = ends.chain([Interface { budget: busy.budget(last), period: last }, busy.shortest()]);
        let best = all
            .filter(|interface| fits(*interface))
            .reduce(|best, next| if next.is_better_than(&best) { next } else { best });
        match best {
            Some(interface) => Ok(Analysis { is_exact: curve.is_exact, ..Analysis::with(busy, margin, interface) }),
            None => Err(least_enforced(&curve, margin)),
        }
    }

    fn with(busy: &Busy, margin: Margin, interface: Interface) -> Analysis {
        let recommended = interface.with(margin);
        Analysis { interface, shorter: None, recommended, conforming: busy.longest(), is_exact: true }
    }
}

/// The longest period up to the hyperperiod of which two budgets, margins included, stay within the bound.
fn longest_period(busy: &Busy, margin: Margin, bound: Nanos) -> Nanos {
    let fits = |period: u64| {
        let period = Nanos(period);
        u128::from((busy.budget(period) + margin.of(period)).0) * 2 <= u128::from(bound.0)
    };
    // `fits` holds for the first, and if there is a last one it does not hold there.
    let (mut low, mut high) = (1, busy.least().period.0 + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    Nanos(low)
}

/// The first period in which the server leaves something to others has the shortest enforced blackout.
fn least_enforced(curve: &Curve, margin: Margin) -> VasError {
    let first = curve.flats.iter().find_map(|flat| {
        let period = margin.leaves_more_than(flat.budget)?.max(flat.from);
        (period <= flat.to).then(|| flat.budget + margin.of(period))
    });
    match first {
        Some(budget) => {
            VasError::Impossible { least: budget + budget, why: "two budgets may come one after the other" }
        }
        None => VasError::Never { why: "with this margin it is a whole CPU; give a smaller --margin" },
    }
}
