//! Virtual time and what is due in it: a tournament of timers, in the total order of time and sequence.
//!
//! A timer is made once and set again and again; setting one that is set moves it. Each that was ever set has a place of its
//! own among the leaves of a tree, and the earlier of two goes on to the next round. Who sets a timer plays its matches
//! again, as far up as they end otherwise than before. The one that was due last is usually set again at once: its matches
//! are played only then, or when the next one is asked for.

use std::hint::select_unpredictable;

/// A timer's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerId(u32);

/// Time, sequence and timer as one number: one comparison.
type Due = u128;

const NEVER: Due = Due::MAX;
const TIMER_BITS: u32 = 24;
const LAST_SEQUENCE: u64 = (1 << 40) - 1;
/// The tree begins with this many leaves.
const FIRST_LEAVES: usize = 8;
/// No timer has this number.
const NONE: u32 = (1 << TIMER_BITS) - 1;

fn due(at: u64, sequence: u64, timer: u32) -> Due {
    Due::from(at) << 64 | Due::from(sequence << TIMER_BITS | u64::from(timer))
}

fn time_of(due: Due) -> u64 {
    (due >> 64) as u64
}

fn timer_of(due: Due) -> u32 {
    due as u32 & NONE
}

/// Which of two is due first is chance to a processor: it guesses wrong half of the time, so no branch.
#[inline(always)]
fn earlier(one: Due, other: Due) -> Due {
    let (is_other, half) = (other < one, |due: Due, at: u32| (due >> at) as u64);
    let each = |at: u32| Due::from(select_unpredictable(is_other, half(other, at), half(one, at))) << at;
    each(64) | each(0)
}

/// Timers that each stand for a `K`.
#[derive(Clone, Debug)]
pub(crate) struct Timers<K> {
    kinds: Vec<K>,
    /// By timer: its leaf, counted from the first one; [`NONE`]: it was never set.
    leaves: Vec<u32>,
    taken_leaves: usize,
    /// With n leaves they are numbers n to 2n; the winner of 2i and 2i + 1 is number i; 1 won all. Number 0 is none.
    nodes: Vec<Due>,
    /// It is due no more, but still in the tree.
    taken: u32,
    sequence: u64,
}

impl<K: Copy> Timers<K> {
    pub fn new() -> Timers<K> {
        let (kinds, leaves, nodes) = (Vec::new(), Vec::new(), vec![NEVER; 2 * FIRST_LEAVES]);
        Timers { kinds, leaves, taken_leaves: 0, nodes, taken: NONE, sequence: 0 }
    }

    /// A new timer, not set.
    ///
    /// # Panics
    /// With 16 million of them.
    pub fn add(&mut self, kind: K) -> TimerId {
        let timer = self.kinds.len() as u32;
        assert!(timer < NONE, "no more timers than {NONE}");
        self.kinds.push(kind);
        self.leaves.push(NONE);
        TimerId(timer)
    }

    /// Sets a timer to this time, ns. Of those due at the same time, the one that was set first comes first.
    #[inline]
    pub fn set(&mut self, timer: TimerId, at: u64) {
        if self.sequence == LAST_SEQUENCE {
            self.renumber();
        }
        self.sequence += 1;
        let due = due(at, self.sequence, timer.0);
        if self.taken == timer.0 {
            self.taken = NONE;
            return self.play_to_the_end(timer.0, due);
        }
        if self.leaves[timer.0 as usize] == NONE {
            self.give_leaf(timer.0);
        }
        self.play(timer.0, due);
    }

    /// Takes a timer back.
    #[inline]
    pub fn cancel(&mut self, timer: TimerId) {
        if self.taken != timer.0 && self.leaves[timer.0 as usize] != NONE {
            self.play(timer.0, NEVER);
        }
    }

    /// When the next one is due.
    pub fn next(&mut self) -> Option<u64> {
        self.leave_taken();
        let first = self.nodes[1];
        (first != NEVER).then(|| time_of(first))
    }

    /// Takes the next one that is due at this time or earlier.
    #[inline]
    pub fn pop(&mut self, until: u64) -> Option<(u64, K)> {
        self.leave_taken();
        let (at, timer) = (time_of(self.nodes[1]), timer_of(self.nodes[1]));
        let kind = *self.kinds.get(timer as usize).filter(|_| at <= until)?;
        self.taken = timer;
        Some((at, kind))
    }

    #[inline]
    fn leave_taken(&mut self) {
        if self.taken != NONE {
            let taken = std::mem::replace(&mut self.taken, NONE);
            self.play_to_the_end(taken, NEVER);
        }
    }

    /// A timer's matches, as far as they end otherwise than before.
    #[inline(never)]
    fn play(&mut self, timer: u32, mut due: Due) {
        let nodes = &mut self.nodes[..];
        let mut place = nodes.len() / 2 + self.leaves[timer as usize] as usize;
        while place > 1 && std::mem::replace(&mut nodes[place], due) != due {
            due = earlier(due, nodes[place ^ 1]);
            place /= 2;
        }
        if place == 1 {
            nodes[1] = due;
        }
    }

    /// The same for one that won all its matches.
    #[inline(never)]
    fn play_to_the_end(&mut self, timer: u32, mut due: Due) {
        let nodes = &mut self.nodes[..];
        let mut place = nodes.len() / 2 + self.leaves[timer as usize] as usize;
        while place > 1 {
            nodes[place] = due;
            due = earlier(due, nodes[place ^ 1]);
            place /= 2;
        }
        nodes[1] = due;
    }

    /// A leaf for one that has none.
    #[cold]
    fn give_leaf(&mut self, timer: u32) {
        let (leaf, leaves) = (self.taken_leaves, self.nodes.len() / 2);
        self.leaves[timer as usize] = leaf as u32;
        self.taken_leaves += 1;
        if leaf == leaves {
            let set = self.all_set();
            self.nodes = vec![NEVER; 2 * (leaves + leaves.div_ceil(8))];
            self.play_all(set);
        }
    }

    /// Those that are set, in their order.
    fn all_set(&mut self) -> Vec<Due> {
        self.leave_taken();
        let mut set = self.nodes.split_off(self.nodes.len() / 2);
        set.retain(|&due| due != NEVER);
        set.sort_unstable();
        set
    }

    fn play_all(&mut self, set: Vec<Due>) {
        set.into_iter().for_each(|due| self.play(timer_of(due), due));
    }

    /// Sequences begin anew.
    #[cold]
    fn renumber(&mut self) {
        let set = self.all_set();
        self.nodes = vec![NEVER; 2 * self.nodes.len()];
        self.sequence = set.len() as u64;
        let again = |(due, sequence): (Due, u64)| self::due(time_of(due), sequence, timer_of(due));
        self.play_all(set.into_iter().zip(1..).map(again).collect());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a sorted list: the same timers come in the same order, whatever is set, moved and cancelled, and when
        /// new ones come and sequences begin anew.
        #[test]
        fn timers_come_in_the_order_of_time_and_sequence(
            orders in proptest::collection::vec((0usize..12, proptest::option::weighted(0.8, 0u64..50)), 1..200),
            until_renumbered in 0u64..300,
        ) {
            let mut timers = Timers::new();
            timers.sequence = LAST_SEQUENCE - until_renumbered;
            let mut ids: Vec<TimerId> = Vec::new();
            let mut model: Vec<(u64, usize, usize)> = Vec::new();
            for (sequence, (which, at)) in orders.into_iter().enumerate() {
                while ids.len() <= which {
                    ids.push(timers.add(ids.len()));
                }
                model.retain(|&(.., timer)| timer != which);
                match at {
                    Some(at) => {
                        timers.set(ids[which], at);
                        model.push((at, sequence, which));
                    }
                    None => timers.cancel(ids[which]),
                }
                prop_assert_eq!(timers.pop(0), model.iter().min().filter(|least| least.0 == 0).map(|l| (l.0, l.2)));
                model.sort_unstable();
                if model.first().is_some_and(|least| least.0 == 0) {
                    model.remove(0);
                }
                if sequence % 5 == 4 && let Some(&least) = model.iter().min() {
                    model.retain(|&entry| entry != least);
                    prop_assert_eq!(timers.next(), Some(least.0));
                    prop_assert_eq!(timers.pop(u64::MAX), Some((least.0, least.2)));
                }
            }
            model.sort_unstable();
            for (at, _, which) in model {
                prop_assert_eq!(timers.pop(at), Some((at, which)));
            }
            prop_assert_eq!(timers.pop(u64::MAX), None);
        }
    }
}
