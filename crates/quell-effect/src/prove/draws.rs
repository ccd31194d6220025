//! The randomisation test: the true draw against others.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::series::Group;
use super::{DRAWS, WRONG};

/// Intervals are looked for up to this factor, as a logarithm: 10,000.
const FARTHEST: f64 = 9.2;
/// An interval's end is this exact.
const EXACT: f64 = 1e-3;

/// Groups, and the draws that might have been.
pub(super) struct Draws<'a> {
    groups: &'a [Group],
    /// Of each group, which block is off: in the true draw, and in [`DRAWS`] others.
    off: Vec<Vec<u8>>,
    /// Groups at each look so far, and the share of the whole experiment that it is.
    looks: Vec<(usize, f64)>,
}

impl<'a> Draws<'a> {
    /// Equal seeds have equal draws, and more groups do not change those of the earlier ones.
    pub fn of(groups: &'a [Group], looks: Vec<(usize, f64)>, seed: u64) -> Draws<'a> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // The design's own draw is another stream.
        random.set_stream(1);
        let draw = |group: &Group| {
            let blocks = group.values.len();
            let mut off = Vec::with_capacity(DRAWS + 1);
            off.push(group.off as u8);
            off.extend((0..DRAWS).map(|_| random.random_range(0..blocks) as u8));
            off
        };
        let off = groups.iter().map(draw).collect();
        Draws { groups, off, looks }
    }

    /// The difference of on from off at the last look: a mean of logarithms.
    pub fn estimate(&self) -> f64 {
        let used = &self.groups[..self.looks.last().map_or(0, |look| look.0)];
        let sum: f64 = used.iter().map(|group| contrast(group, group.off, 0.0, group.off)).sum();
        sum / used.len().max(1) as f64
    }

    /// Is this difference among those that the last look does not exclude?
    pub fn is_possible(&self, difference: f64) -> bool {
        let mut sums = vec![0.0; DRAWS + 1];
        let mut is_left = vec![true; DRAWS + 1];
        let (mut done, mut excluded, mut left) = (0, 0, Vec::with_capacity(DRAWS + 1));
        for (number, &(groups, share)) in self.looks.iter().enumerate() {
            for (group, off) in self.groups[done..groups].iter().zip(&self.off[done..groups]) {
                let contrasts: Vec<f64> =
                    (0..group.values.len()).map(|block| contrast(group, block, difference, group.off)).collect();
                sums.iter_mut().zip(off).for_each(|(sum, off)| *sum += contrasts[usize::from(*off)]);
            }
            done = groups;
            let budget = (spent(share) * (DRAWS + 1) as f64) as usize - excluded;
            if budget == 0 {
                continue;
            }
            left.clear();
            left.extend(sums.iter().zip(&is_left).filter(|(_, left)| **left).map(|(sum, _)| sum.abs()));
            // The largest ones are excluded, as many as the budget allows; of equal ones none or all.
            let (_, &mut bound, _) = left.select_nth_unstable_by(budget, |one, other| other.total_cmp(one));
            if number + 1 == self.looks.len() {
                return sums[0].abs() <= bound;
            }
            // The true draw is kept: what an earlier look excluded is that look's verdict.
            for (left, sum) in is_left.iter_mut().zip(&sums).skip(1) {
                if *left && sum.abs() > bound {
                    *left = false;
                    excluded += 1;
                }
            }
        }
        true
    }

    /// The differences that are possible, lowest and highest; None where there is no bound.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let estimate = self.estimate();
        let end = |way: f64| {
            let mut step = EXACT;
            while self.is_possible(estimate + way * step) {
                step *= 2.0;
                if step > 2.0 * FARTHEST {
                    return None;
                }
            }
            let (mut possible, mut excluded) = (step / 2.0, step);
            while excluded - possible > EXACT.max(excluded * 0.01) {
                let middle = f64::midpoint(possible, excluded);
                if self.is_possible(estimate + way * middle) {
                    possible = middle;
                } else {
                    excluded = middle;
                }
            }
            Some(estimate + way * excluded)
        };
        Some((end(-1.0)?, end(1.0)?))
    }
}

/// The mean of the other blocks less the one that is taken to be off, where a difference is taken off those that were on.
fn contrast(group: &Group, off: usize, difference: f64, was_off: usize) -> f64 {
    let value = |block: usize| group.values[block] - if block == was_off { 0.0 } else { difference };
    let others = group.values.len() as f64 - 1.0;
    let sum: f64 = (0..group.values.len()).filter(|block| *block != off).map(value).sum();
    sum / others - value(off)
}

/// Wrong verdicts up to a share of the experiment (Lan and DeMets 1983, in Pocock's form).
fn spent(share: f64) -> f64 {
    WRONG * (1.0 + (std::f64::consts::E - 1.0) * share.min(1.0)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_spent_at_the_end() {
        assert!(spent(0.0) == 0.0 && (spent(1.0) - WRONG).abs() < 1e-12 && spent(2.0) <= WRONG + 1e-12);
        assert!((spent(0.2) - 0.0148).abs() < 1e-4);
    }

    fn groups(values: &[[f64; 3]]) -> Vec<Group> {
        (0..)
            .zip(values)
            .map(|(number, values)| Group { number, values: values.to_vec(), off: number as usize % 3 })
            .collect()
    }

    #[test]
    fn the_estimate_is_the_mean_of_on_less_off() {
        let groups = groups(&[[1.0, 0.0, 0.5], [3.0, 2.0, 1.0]]);
        // 0.25 - 1, and 2 - 2.
        assert_eq!(Draws::of(&groups, vec![(2, 1.0)], 1).estimate(), -0.375);
        assert_eq!(Draws::of(&groups, vec![(1, 0.5)], 1).estimate(), -0.75);
    }

    #[test]
    fn few_groups_exclude_nothing() {
        let groups = groups(&[[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]]);
        let draws = Draws::of(&groups, vec![(2, 1.0)], 1);
        assert!(draws.is_possible(0.0), "one draw of nine is as good");
        assert_eq!(draws.interval(), None);
    }

    #[test]
    fn an_interval_holds_the_estimate_and_excludes_what_is_not_possible() {
        let noise = |at: usize| ((at * 7919) % 101) as f64 / 101.0;
        let mut values: Vec<[f64; 3]> =
            (0..30).map(|at| [noise(3 * at), noise(3 * at + 1), noise(3 * at + 2)]).collect();
        (0..30).for_each(|at| values[at][at % 3] += 1.0);
        let groups = groups(&values);
        let draws = Draws::of(&groups, vec![(10, 1.0 / 3.0), (30, 1.0)], 1);
        let (low, high) = draws.interval().unwrap();
        assert!(low < -1.0 && -1.0 < high && high < -0.7 && low > -1.3, "{low} {high}");
        assert!(low < draws.estimate() && draws.estimate() < high && draws.is_possible(draws.estimate()));
        for (difference, is_possible) in
            [(low, false), (low + 0.02, true), (high - 0.02, true), (high, false), (0.0, false)]
        {
            assert_eq!(draws.is_possible(difference), is_possible, "{difference} of {low} to {high}");
        }
    }
}
