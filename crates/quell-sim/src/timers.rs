//! Virtual time and what is due in it: an indexed heap of timers, in the total order of time and sequence.
//!
//! A timer is made once and set again and again; setting one that is set moves it. Nothing stale ever lies in the
//! heap, so it stays as large as the number of timers that are set, however long the simulation runs.

/// A timer's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerId(u32);

#[derive(Clone, Copy, Debug)]
struct Due {
    /// Time and sequence, as one number: one comparison.
    order: u128,
    timer: u32,
}

impl Due {
    fn new(at: u64, sequence: u64, timer: u32) -> Due {
        Due { order: u128::from(at) << 64 | u128::from(sequence), timer }
    }

    fn at(&self) -> u64 {
        (self.order >> 64) as u64
    }

    fn before(&self, other: &Due) -> bool {
        self.order < other.order
    }
}

const NOWHERE: u32 = u32::MAX;
const CHILDREN: usize = 4;

/// Timers that each stand for a `K`.
#[derive(Clone, Debug)]
pub(crate) struct Timers<K> {
    kinds: Vec<K>,
    /// Each timer's place in the heap.
    places: Vec<u32>,
    heap: Vec<Due>,
    sequence: u64,
}

impl<K: Copy> Timers<K> {
    pub fn new() -> Timers<K> {
        Timers { kinds: Vec::new(), places: Vec::new(), heap: Vec::new(), sequence: 0 }
    }

    /// A new timer, not set.
    pub fn add(&mut self, kind: K) -> TimerId {
        self.kinds.push(kind);
        self.places.push(NOWHERE);
        TimerId(self.kinds.len() as u32 - 1)
    }

    /// Sets a timer to this time, ns. Of those due at the same time, the one that was set first comes first.
    pub fn set(&mut self, timer: TimerId, at: u64) {
        self.sequence += 1;
        let due = Due::new(at, self.sequence, timer.0);
        let place = self.places[timer.0 as usize];
        if place == NOWHERE {
            self.heap.push(due);
            self.rise(self.heap.len() - 1, due);
        } else {
            let place = place as usize;
            if due.before(&self.heap[place]) { self.rise(place, due) } else { self.sink(place, due) }
        }
    }

    /// Takes a timer back.
    pub fn cancel(&mut self, timer: TimerId) {
        let place = std::mem::replace(&mut self.places[timer.0 as usize], NOWHERE);
        if place != NOWHERE {
            self.remove(place as usize);
        }
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<u64> {
        self.heap.first().map(Due::at)
    }

    /// Takes the next one that is due at this time or earlier.
    pub fn pop(&mut self, until: u64) -> Option<(u64, K)> {
        let due = *self.heap.first().filter(|due| due.at() <= until)?;
        self.places[due.timer as usize] = NOWHERE;
        self.remove(0);
        Some((due.at(), self.kinds[due.timer as usize]))
    }

    fn remove(&mut self, place: usize) {
        let Some(last) = self.heap.pop() else { return };
        if place < self.heap.len() {
            let up = place > 0 && last.before(&self.heap[(place - 1) / CHILDREN]);
            if up { self.rise(place, last) } else { self.sink(place, last) }
        }
    }

    fn rise(&mut self, mut place: usize, due: Due) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if !due.before(&self.heap[parent]) {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, due);
    }

    fn sink(&mut self, mut place: usize, due: Due) {
        loop {
            let first = place * CHILDREN + 1;
            let last = (first + CHILDREN).min(self.heap.len());
            let Some(mut least) = (first < last).then_some(first) else { break };
            let mut next = self.heap[least];
            for (child, other) in self.heap[..last].iter().enumerate().skip(first + 1) {
                if other.before(&next) {
                    (least, next) = (child, *other);
                }
            }
            if !next.before(&due) {
                break;
            }
            self.put(place, next);
            place = least;
        }
        self.put(place, due);
    }

    fn put(&mut self, place: usize, due: Due) {
        self.heap[place] = due;
        self.places[due.timer as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a sorted list: the same timers come in the same order, whatever is set, moved and cancelled.
        #[test]
        fn timers_come_in_the_order_of_time_and_sequence(
            orders in proptest::collection::vec((0usize..12, proptest::option::weighted(0.8, 0u64..50)), 1..200),
        ) {
            let mut timers = Timers::new();
            let ids: Vec<TimerId> = (0..12).map(|kind| timers.add(kind)).collect();
            let mut model: Vec<(u64, usize, usize)> = Vec::new();
            for (sequence, (which, at)) in orders.into_iter().enumerate() {
                model.retain(|&(.., timer)| timer != which);
                match at {
                    Some(at) => {
                        timers.set(ids[which], at);
                        model.push((at, sequence, which));
                    }
                    None => timers.cancel(ids[which]),
                }
                if sequence % 5 == 4 && let Some(&least) = model.iter().min() {
                    model.retain(|&entry| entry != least);
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
