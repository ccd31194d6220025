//! Failures, from a seed.

use quell_model::KnobKind;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What goes wrong, and how often.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Chance (0–1) that a plan's knobs are refused.
    pub knobs_refused: f64,
    /// Chance that a grant or revocation is refused.
    pub grants_refused: f64,
    /// Chance that a rule, sample request or lease is refused.
    pub others_refused: f64,
    /// Chance that some workload vanishes in a turn of the loop.
    pub vanishing: f64,
    /// A knob that the host has not.
    pub without: Option<KnobKind>,
    dice: ChaCha8Rng,
}

impl Faults {
    /// No failure, until the fields say otherwise.
    #[must_use]
    pub fn seeded(seed: u64) -> Faults {
        Faults {
            knobs_refused: 0.0,
            grants_refused: 0.0,
            others_refused: 0.0,
            vanishing: 0.0,
            without: None,
            dice: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    pub(crate) fn strikes(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.dice.random_bool(chance.clamp(0.0, 1.0))
    }

    pub(crate) fn pick(&mut self, among: usize) -> usize {
        self.dice.random_range(0..among.max(1))
    }
}
