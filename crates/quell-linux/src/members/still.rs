//! Whether threads can have come or gone since the last look at them: the kernel says so in one line.

use quell_model::Nanos;

use crate::procfs::Population;

/// A process that is moved into a cgroup leaves no trace in that line: it is found within this time.
const MOVES_SHOW: Nanos = Nanos::from_millis(100);

/// The machine's threads when the last look at some of them began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Still {
    before: Option<(Population, Nanos)>,
}

impl Still {
    /// Would a look find what the last one found?
    pub fn holds(&self, present: Option<Population>, now: Nanos) -> bool {
        self.before.is_some_and(|(before, at)| present == Some(before) && now < at + MOVES_SHOW)
    }

    /// A look begins. None: what the kernel says is not known.
    pub fn look(&mut self, present: Option<Population>, now: Nanos) {
        self.before = present.map(|present| (present, now));
    }

    /// The next look is needed.
    pub fn forget(&mut self) {
        self.before = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_needed_after_a_birth_or_a_death_and_after_a_while() {
        let (at, soon) = (Nanos::from_secs(1), Nanos::from_secs(1) + Nanos::from_millis(20));
        let population = |threads, last| Some(Population { threads, last });
        let mut still = Still::default();
        assert!(!still.holds(population(100, 4711), at));
        still.look(population(100, 4711), at);
        assert!(still.holds(population(100, 4711), soon));
        assert!(!still.holds(population(101, 4712), soon), "a birth");
        assert!(!still.holds(population(100, 4712), soon), "a birth and a death");
        assert!(!still.holds(population(99, 4711), soon), "a death");
        assert!(!still.holds(None, soon) && !still.holds(population(100, 4711), at + MOVES_SHOW));
        still.forget();
        assert!(!still.holds(population(100, 4711), soon));
        still.look(None, at);
        assert!(!still.holds(None, soon), "where the kernel does not say it");
    }
}
