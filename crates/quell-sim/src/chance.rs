//! What the kernel leaves to chance.

use crate::Stream;

/// The first stream of these numbers, the host's; workloads count theirs from 0, and guests from one more.
const STREAM: u64 = 1 << 62;

/// Random numbers of a kernel's own, and what was drawn when it booted.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    pub dice: Stream,
    /// Ticks come so much before whole periods, ns.
    before: u64,
}

impl Chance {
    /// By this seed, for the kernel of this number. `tick`: the ticks' period, ns, if they have a phase.
    pub fn new(seed: u64, number: u64, tick: Option<u64>) -> Chance {
        let mut dice = Stream::new(seed, STREAM + number);
        let before = tick.map_or(0, |tick| (dice.unit() * tick as f64) as u64 % tick);
        Chance { dice, before }
    }

    /// The first tick after this time, ns.
    pub fn next_tick(&self, now: u64, period: u64) -> u64 {
        (now + self.before) / period * period + period - self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_a_phase_of_the_seed() {
        assert_eq!(Chance::new(1, 0, None).next_tick(7, 10), 10);
        let first = |seed| Chance::new(seed, 0, Some(1_000)).next_tick(0, 1_000);
        assert!((1..10).all(|seed| (1..=1_000).contains(&first(seed))) && first(1) != first(2));
        let chance = Chance::new(3, 0, Some(1_000));
        assert_eq!(chance.next_tick(first(3), 1_000), first(3) + 1_000);
    }
}
