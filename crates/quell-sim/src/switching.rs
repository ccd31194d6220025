//! How often threads were switched and moved, as Linux counts it.

/// How often threads were switched and moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switching {
    /// Times they gave a CPU up to sleep, or ended (`nr_voluntary_switches`).
    pub sleeps: u64,
    /// Times they lost a CPU although they could have gone on (`nr_involuntary_switches`).
    pub preemptions: u64,
    /// Times they came into the queue of another CPU than the one before, woken or balanced (`se.nr_migrations`).
    pub migrations: u64,
}

impl Switching {
    /// What came on top of these.
    #[must_use]
    pub fn since(self, before: Switching) -> Switching {
        Switching {
            sleeps: self.sleeps - before.sleeps,
            preemptions: self.preemptions - before.preemptions,
            migrations: self.migrations - before.migrations,
        }
    }
}

impl std::iter::Sum for Switching {
    fn sum<I: Iterator<Item = Switching>>(all: I) -> Switching {
        all.fold(Switching::default(), |sum, one| Switching {
            sleeps: sum.sleeps + one.sleeps,
            preemptions: sum.preemptions + one.preemptions,
            migrations: sum.migrations + one.migrations,
        })
    }
}
