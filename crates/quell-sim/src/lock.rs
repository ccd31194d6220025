//! Locks.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Who has a lock next when it is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockOrder {
    /// The first to come: the one that has waited longest is woken, and tries again when it has a CPU. As glibc's
    /// mutexes over futexes, without their spinning.
    #[default]
    Barging,
    /// The one that has waited longest, at once: no other can have it until that one has had a CPU.
    HandOff,
}

/// A lock, and who waits for it. Threads go by their numbers in `Graphs`.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    order: LockOrder,
    is_held: bool,
    waiting: VecDeque<usize>,
}

/// What learns of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    NoOne,
    /// This one has the lock.
    Has(usize),
    /// This one tries again.
    MayTry(usize),
}

impl Lock {
    pub fn new(order: LockOrder) -> Lock {
        Lock { order, is_held: false, waiting: VecDeque::new() }
    }

    /// The thread has the lock from now on; false: it has to wait, at the end of the line.
    pub fn take(&mut self, thread: usize) -> bool {
        if self.is_held {
            self.waiting.push_back(thread);
            return false;
        }
        self.is_held = true;
        true
    }

    /// Its holder lets it go.
    pub fn release(&mut self) -> Next {
        let first = self.waiting.pop_front();
        self.is_held = first.is_some() && self.order == LockOrder::HandOff;
        match first {
            None => Next::NoOne,
            Some(thread) if self.is_held => Next::Has(thread),
            Some(thread) => Next::MayTry(thread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_handed_off_is_never_free_in_between() {
        let mut lock = Lock::new(LockOrder::HandOff);
        assert!(lock.take(1) && !lock.take(2) && !lock.take(3));
        assert_eq!(lock.release(), Next::Has(2));
        assert!(!lock.take(4));
        assert_eq!([lock.release(), lock.release(), lock.release()], [Next::Has(3), Next::Has(4), Next::NoOne]);
        assert!(lock.take(5));
    }

    #[test]
    fn a_barging_thread_comes_before_the_one_that_was_woken() {
        let mut lock = Lock::new(LockOrder::Barging);
        assert!(lock.take(1) && !lock.take(2) && !lock.take(3));
        assert_eq!(lock.release(), Next::MayTry(2));
        assert!(lock.take(4) && !lock.take(2));
        assert_eq!(lock.release(), Next::MayTry(3), "2 is at the end of the line again");
        assert!(lock.take(3));
    }
}
