//! Aggressors without counters: best-effort workloads are paused one by one, for a moment, in random order. The one whose
//! pauses make others better off more often than chance explains is the aggressor. A sign test; no verdict below 95 % over
//! all candidates together.

use quell_model::{Nanos, WorkloadId};
use serde::{Deserialize, Serialize};

/// Length of a pause.
pub const PAUSE: Nanos = Nanos::from_millis(30);
/// Chance of a wrong name over all candidates together.
const WRONG: f64 = 0.05;
/// After so many rounds it is seen if one can be named; after the last of them none is. The chance is shared by them.
const CHECKS: [u32; 3] = [10, 15, 20];
/// A pause that changes the measure by less says nothing: neither for nor against.
const LEAST: f64 = 0.01;

/// A candidate, and the signs of its pauses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// The workload.
    pub id: WorkloadId,
    /// Pauses in which others were better off.
    pub better: u32,
    /// Pauses that said anything.
    pub pauses: u32,
    /// Sum of the relative changes.
    gain: f64,
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
        self.all.extend(candidates.map(|id| Suspect { id, better: 0, pauses: 0, gain: 0.0 }));
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

    /// What a measure, of which less is better, was before its pause and in it.
    pub fn paused(&mut self, id: WorkloadId, without: f64, with: f64) {
        let change = (without - with) / without;
        let Some(suspect) = self.all.iter_mut().find(|suspect| suspect.id == id) else { return };
        if change.abs() >= LEAST {
            suspect.pauses += 1;
            suspect.better += u32::from(change > 0.0);
            suspect.gain += change;
        }
    }

    /// The workload whose pauses help most, of those that do more often than chance explains.
    #[must_use]
    pub fn named(&self) -> Option<Suspect> {
        let bound = WRONG / (self.all.len().max(1) * CHECKS.len()) as f64;
        let is_clear = |suspect: &&Suspect| sign_test(suspect.better, suspect.pauses) <= bound;
        self.all.iter().filter(is_clear).max_by(|one, other| one.mean().total_cmp(&other.mean())).copied()
    }
}

impl Suspect {
    fn mean(&self) -> f64 {
        self.gain / f64::from(self.pauses.max(1))
    }
}

/// The chance that so many of these tosses or more are heads.
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
            suspects.paused(id, without, with);
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
