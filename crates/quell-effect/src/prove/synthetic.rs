//! Series of latencies that depend on each other, for tests.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, StandardNormal};

use super::{Design, Measured};
use crate::phase::{Measure, Phase, Slice};

/// Values in a block.
pub const PER_BLOCK: usize = 100;
const MS: f64 = 1e6;

/// How values depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An autoregression of first order: neighbouring blocks are much alike.
    Autoregressive,
    /// Two states, one of them eight times as slow, each lasting for about one and a half blocks.
    Bursty,
    /// A wave over two thirds of the experiment, between a third and three times the middle.
    Diurnal,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Autoregressive, Kind::Bursty, Kind::Diurnal];
}

/// The state of a series from value to value.
struct State {
    random: ChaCha8Rng,
    kind: Kind,
    level: f64,
    is_slow: bool,
    at: usize,
    all: usize,
}

impl State {
    fn next(&mut self) -> f64 {
        let normal: f64 = StandardNormal.sample(&mut self.random);
        let noise: f64 = Exp1.sample(&mut self.random);
        self.at += 1;
        let logarithm = match self.kind {
            Kind::Autoregressive => {
                self.level = 0.99 * self.level + 0.07 * normal;
                self.level
            }
            Kind::Bursty => {
                self.is_slow ^= self.random.random_bool(1.0 / 150.0);
                if self.is_slow { 8f64.ln() } else { 0.0 }
            }
            Kind::Diurnal => {
                self.level = 0.9 * self.level + 0.1 * normal;
                let turns = 1.5 * self.at as f64 / self.all as f64;
                self.level + 3f64.ln() * (std::f64::consts::TAU * turns).sin()
            }
        };
        logarithm.exp() * (0.2 + noise)
    }
}

/// The blocks of an experiment; those that are on are this factor of the others. `rate` is the number of values in a block over
/// [`PER_BLOCK`], by the block's share of the experiment.
pub fn blocks(design: &Design, kind: Kind, seed: u64, factor: f64, rate: impl Fn(f64) -> f64) -> Vec<Measured> {
    let turns = design.turns();
    let all = turns.len() * PER_BLOCK;
    let mut state = State {
        random: ChaCha8Rng::seed_from_u64(seed),
        kind,
        level: 0.0,
        is_slow: seed.is_multiple_of(2),
        at: 0,
        all,
    };
    // Past the beginning, which is alike in all.
    for _ in 0..500 {
        state.next();
    }
    state.at = 0;
    let mut measured = Vec::with_capacity(turns.len());
    for (number, turn) in turns.iter().enumerate() {
        let mut phase = Phase::new(Measure::Probe, Vec::new());
        let values = (PER_BLOCK as f64 * rate(number as f64 / turns.len() as f64)) as usize / 2;
        for half in 0..2 {
            let from_ns = ((2 * number + half) as f64 * design.block_seconds * 5e8) as u64;
            let value = |_| ((state.next() * MS * if turn.on { factor } else { 1.0 }) as u64, 1);
            let cells = (0..values).map(value).collect();
            phase.slices.push(Slice { from_ns, to_ns: from_ns + (design.block_seconds * 5e8) as u64, cells });
        }
        measured.push(Measured { turn: *turn, phase });
    }
    measured
}
