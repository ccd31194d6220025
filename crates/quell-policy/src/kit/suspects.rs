//! Aggressors without counters: best-effort workloads are paused one by one, for a moment, in random order. The one whose
//! pauses make others better off more often than chance explains is the aggressor. A sign test; no verdict below 95 % over
//! all candidates together.

use quell_model::{Nanos, WorkloadId};
use serde::{Deserialize, Serialize};

/// Length of a pause.
pub const PAUSE: Nanos = Nanos::from_millis(30);
/// Chance of a wrong name over all candidates together.
const WRONG: f64 = 0.05;
/// After this many rounds it is checked whether one can be named; after the last of them none is. The chance is shared by them.
const CHECKS: [u32; 3] = [10, 15, 20];
/// A pause that changes the measure by less says nothing: neither for nor against.
const LEAST: f64 = 0.01;

/// What is compared in a pause and just before; in each less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Measure {
    /// How slow memory is.
    Memory,
    /// The victim's cycles an instruction.
    Cycles,
    /// The time that the victim's threads wait for CPUs, a second.
    Waiting,
}

impl Measure {
    /// Every measure, the one that says most about memory first.
    pub const ALL: [Measure; 3] = [Measure::Memory, Measure::Cycles, Measure::Waiting];
}

/// A value of each measure that there is.
pub type Measured = [Option<f64>; Measure::ALL.len()];

/// The signs of a candidate's pauses by one measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Signs {
    /// Pauses in which others were better off.
    better: u32,
    /// Pauses that said anything.
    pauses: u32,
    /// Sum of the relative changes.
    gain: f64,
}

/// A candidate, and what its pauses said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Suspect {
    id: WorkloadId,
    signs: [Signs; Measure::ALL.len()],
}

/// The one that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The workload.
    pub id: WorkloadId,
    /// The measure that says so.
    pub by: Measure,
    /// Pauses in which others were better off.
    pub better: u32,
    /// Pauses that said anything.
    pub pauses: u32,
}

/// The candidates of one search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suspects {
    all: Vec<Suspect>,
    round: u32,
    /// The order of this round: indices not yet paused, the next one last.
    order: Vec<u32>,
    dice: u64,
}

impl Suspects {
    /// A search among these begins.
    pub fn begin(&mut self, candidates: impl Iterator<Item = WorkloadId>, seed: u64) {
        self.all.clear();
        self.all.extend(candidates.map(|id| Suspect { id, signs: Default::default() }));
        self.order.clear();
        (self.round, self.dice) = (0, seed);
    }

    /// The workload to pause next; None: it is over.
    pub fn draw(&mut self) -> Option<WorkloadId> {
        if self.order.is_empty() {
            let is_over = self.round == CHECKS[2] || self.all.is_empty();
            if is_over || (CHECKS.contains(&self.round) && self.named().is_some()) {
                return None;
            }
            self.round += 1;
            self.order.extend(0..self.all.len() as u32);
            for at in (1..self.order.len()).rev() {
                let other = (self.roll() % (at as u64 + 1)) as usize;
                self.order.swap(at, other);
            }
        }
        self.order.pop().map(|at| self.all[at as usize].id)
    }

    /// SplitMix64 (Steele et al. 2014): published, and the same everywhere.
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.dice;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// What the measures were before its pause and in it.
    pub fn paused(&mut self, id: WorkloadId, without: &Measured, with: &Measured) {
        let Some(suspect) = self.all.iter_mut().find(|suspect| suspect.id == id) else { return };
        for ((signs, without), with) in suspect.signs.iter_mut().zip(without).zip(with) {
            let change = without.zip(*with).map_or(0.0, |(without, with)| (without - with) / without);
            if change.is_finite() && change.abs() >= LEAST {
                signs.pauses += 1;
                signs.better += u32::from(change > 0.0);
                signs.gain += change;
            }
        }
    }

    /// The workload whose pauses help most, of those that do more often than chance explains: by the first measure that names
    /// one. Measures that say nothing of any share nothing of the chance.
    #[must_use]
    pub fn named(&self) -> Option<Found> {
        let speaks = |by: &Measure| self.all.iter().any(|suspect| suspect.signs[*by as usize].pauses > 0);
        let measures = Measure::ALL.into_iter().filter(speaks);
        let bound = WRONG / (self.all.len().max(1) * CHECKS.len() * measures.clone().count().max(1)) as f64;
        let found = |by: Measure| {
            let signs = self.all.iter().map(|suspect| (suspect.id, suspect.signs[by as usize]));
            let clear = signs.filter(|(_, signs)| sign_test(signs.better, signs.pauses) <= bound);
            let (id, signs) = clear.max_by(|(_, one), (_, other)| one.mean().total_cmp(&other.mean()))?;
            Some(Found { id, by, better: signs.better, pauses: signs.pauses })
        };
        measures.filter_map(found).next()
    }
}

impl Signs {
    fn mean(&self) -> f64 {
        self.gain / f64::from(self.pauses.max(1))
    }
}

/// The chance that this many of these tosses or more are heads.
fn sign_test(heads: u32, tosses: u32) -> f64 {
    let mut chance = 0.0;
    let mut ways = 1.0;
    for tails in 0..=tosses - heads.min(tosses) {
        chance += ways;
        ways *= f64::from(tosses - tails) / f64::from(tails + 1);
    }
    chance / f64::from(tosses).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_test_is_the_binomial_distribution() {
        for (heads, tosses, chance) in [(0, 0, 1.0), (8, 8, 1.0 / 256.0), (7, 8, 9.0 / 256.0), (0, 5, 1.0)] {
            assert!((sign_test(heads, tosses) - chance).abs() < 1e-12, "{heads} of {tosses}");
        }
    }

    /// Noise of a canary, and one that streams.
    fn search(streams: Option<u32>, candidates: u32, seed: u64) -> (Option<WorkloadId>, u32) {
        let mut suspects = Suspects::default();
        suspects.begin((0..candidates).map(WorkloadId), seed);
        let mut noise = Suspects { dice: seed ^ 0x5eed, ..Suspects::default() };
        let mut pauses = 0;
        while let Some(id) = suspects.draw() {
            pauses += 1;
            let jitter = |noise: &mut Suspects| 0.1 * (noise.roll() as f64 / u64::MAX as f64 - 0.5);
            let without = 1.5 + jitter(&mut noise);
            let with = 1.5 + jitter(&mut noise) - if Some(id.0) == streams { 0.3 } else { 0.0 };
            suspects.paused(id, &[Some(without), None, None], &[Some(with), None, None]);
        }
        (suspects.named().map(|suspect| suspect.id), pauses)
    }

    #[test]
    fn the_one_that_streams_is_named_and_none_where_none_does() {
        let (mut right, mut blamed) = (0, 0);
        for seed in 0..200 {
            let candidates = 2 + seed as u32 % 7;
            let streams = seed as u32 % candidates;
            right += u32::from(search(Some(streams), candidates, seed).0 == Some(WorkloadId(streams)));
            blamed += u32::from(search(None, candidates, seed).0.is_some());
        }
        assert!(right >= 190 && blamed <= 20, "{right} right, {blamed} blamed of 200");
    }

    #[test]
    fn the_first_measure_that_is_clear_names_and_one_that_is_missing_costs_nothing() {
        let name = |with: &dyn Fn(u32) -> Measured| {
            let mut suspects = Suspects::default();
            suspects.begin((0..3).map(WorkloadId), 7);
            while let Some(id) = suspects.draw() {
                suspects.paused(id, &[Some(1.0), Some(2.0), Some(0.0)], &with(id.0));
            }
            suspects.named().map(|found| (found.id.0, found.by))
        };
        let helps = |is: bool| Some(if is { 0.5 } else { 1.0 });
        assert_eq!(
            name(&|id| [helps(id == 1), Some(if id == 2 { 1.0 } else { 2.0 }), None]),
            Some((1, Measure::Memory))
        );
        assert_eq!(name(&|id| [helps(false), Some(if id == 2 { 1.0 } else { 2.0 }), None]), Some((2, Measure::Cycles)));
        assert_eq!(name(&|_| [None, None, Some(0.0)]), None, "nothing waited before nor in the pause");
        assert_eq!(name(&|_| [None, None, Some(0.5)]), None, "more than nothing is no part of it");
    }

    #[test]
    fn every_round_pauses_each_once() {
        let mut suspects = Suspects::default();
        suspects.begin((0..5).map(WorkloadId), 1);
        let mut first: Vec<u32> = (0..5).map(|_| suspects.draw().unwrap().0).collect();
        let second: Vec<u32> = (0..5).map(|_| suspects.draw().unwrap().0).collect();
        assert_ne!(first, second, "in another order");
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2, 3, 4]);
    }
}
