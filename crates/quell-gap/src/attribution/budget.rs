//! What attribution may cost.

use quell_model::Nanos;

/// Unused time is saved for this long.
const SAVED_FOR: Nanos = Nanos::from_secs(60);
/// The first burst is taken to cost this much of its length; later ones what the latest did.
const FIRST_GUESS: f64 = 0.02;
/// And some more.
const RESERVE: f64 = 1.25;

/// CPU time that is there to be spent.
#[derive(Clone, Debug)]
pub struct Budget {
    /// CPU time per time.
    rate: f64,
    left: f64,
    at: Nanos,
    /// What a burst cost, per time.
    burst: f64,
    spent: Nanos,
}

impl Budget {
    /// This much of a CPU, from now on.
    #[must_use]
    pub fn new(rate: f64, now: Nanos) -> Budget {
        Budget { rate, left: rate * SAVED_FOR.0 as f64 / 2.0, at: now, burst: FIRST_GUESS, spent: Nanos::ZERO }
    }

    /// Time has passed, in which this much more was spent than before.
    pub fn spend(&mut self, now: Nanos, cost: Nanos) {
        let most = self.rate * SAVED_FOR.0 as f64;
        self.left = (self.left + self.rate * now.since(self.at).0 as f64).min(most) - cost.0 as f64;
        self.at = now;
        self.spent += cost;
    }

    /// This much was spent once, and is not made up for.
    pub fn spend_once(&mut self, cost: Nanos) {
        self.spent += cost;
    }

    /// What a burst of this length cost.
    pub fn learn(&mut self, length: Nanos, cost: Nanos) {
        if length > Nanos::ZERO {
            self.burst = cost.0 as f64 / length.0 as f64;
        }
    }

    /// The longest of these lengths that can be paid; None: none of them.
    #[must_use]
    pub fn affords(&self, lengths: &[Nanos]) -> Option<Nanos> {
        lengths.iter().copied().find(|length| self.burst * RESERVE * length.0 as f64 <= self.left)
    }

    /// What may be spent now.
    #[must_use]
    pub fn left(&self) -> Nanos {
        Nanos(self.left.max(0.0) as u64)
    }

    /// Even the shortest burst costs more than can ever be saved.
    #[must_use]
    pub fn never_affords(&self, shortest: Nanos) -> bool {
        self.burst * RESERVE * shortest.0 as f64 > self.rate * SAVED_FOR.0 as f64
    }

    /// All that was spent.
    #[must_use]
    pub fn spent(&self) -> Nanos {
        self.spent
    }
}
