//! One socket while time passes: which threads run there, and the balance between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::memory;
use super::solve::{Load, Rates, Socket, load};
use crate::kernel::FULL_SPEED;

/// No more balances are kept; with more, all are forgotten.
const KEPT: usize = 4096;

/// Threads that are alike: what they do, where, beside whom.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// One of them.
    pub load: Load,
    /// Time of an instruction alone on the idle machine.
    pub ns_alone: f64,
}

/// A class's number, and how many of it run.
type Count = (u32, u32);

/// How fast one of a class is, as the kernel counts it, and what it does in a nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pace {
    pub speed: u64,
    pub rates: Rates,
}

/// Those who run, in balance.
#[derive(Clone, Debug)]
pub(super) struct Balance {
    /// A reference to memory takes this many times its time on idle memory.
    slowdown: f64,
    /// The pace of every class that runs, by its number.
    paces: Vec<(u32, Pace)>,
}

impl Balance {
    /// How a class fares that runs.
    pub fn pace(&self, class: u32) -> Option<&Pace> {
        let at = self.paces.binary_search_by_key(&class, |&(class, _)| class).ok()?;
        Some(&self.paces[at].1)
    }
}

/// One socket.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub cpus: Vec<usize>,
    /// What others than its CPUs move, bytes a nanosecond, from `others_from` on, and the bytes before.
    others: f64,
    others_from: u64,
    others_moved: f64,
    /// By class, ascending.
    running: Vec<Count>,
    /// What is known already, by who runs.
    known: BTreeMap<Box<[Count]>, Arc<Balance>>,
    balance: Option<Arc<Balance>>,
    pub is_dirty: bool,
}

impl Domain {
    pub fn new(cpus: Vec<usize>) -> Domain {
        let (running, known) = (Vec::new(), BTreeMap::new());
        Domain { cpus, others: 0.0, others_from: 0, others_moved: 0.0, running, known, balance: None, is_dirty: true }
    }

    /// One thread of this class more.
    pub fn add(&mut self, class: u32) {
        match self.running.binary_search_by_key(&class, |&(class, _)| class) {
            Ok(at) => self.running[at].1 += 1,
            Err(at) => self.running.insert(at, (class, 1)),
        }
        self.is_dirty = true;
    }

    /// One less.
    pub fn remove(&mut self, class: u32) {
        if let Ok(at) = self.running.binary_search_by_key(&class, |&(class, _)| class) {
            self.running[at].1 -= 1;
            if self.running[at].1 == 0 {
                self.running.remove(at);
            }
        }
        self.is_dirty = true;
    }

    /// Others move so much more from now on.
    pub fn others_move(&mut self, more: f64, now: u64) {
        self.others_moved = self.moved_by_others(now);
        (self.others, self.others_from) = ((self.others + more).max(0.0), now);
        self.forget();
    }

    /// Bytes that others have moved.
    pub fn moved_by_others(&self, now: u64) -> f64 {
        self.others_moved + self.others * now.saturating_sub(self.others_from) as f64
    }

    /// Classes are not what they were.
    pub fn forget(&mut self) {
        self.known.clear();
        self.is_dirty = true;
    }

    /// Brings those who run now into balance.
    pub fn settle(&mut self, socket: &Socket, classes: &[Class]) -> Arc<Balance> {
        self.is_dirty = false;
        let balance = match self.known.get(&self.running[..]) {
            Some(known) => Arc::clone(known),
            None => self.bring_into_balance(socket, classes),
        };
        self.balance = Some(Arc::clone(&balance));
        balance
    }

    fn bring_into_balance(&mut self, socket: &Socket, classes: &[Class]) -> Arc<Balance> {
        let class = |&(class, threads): &Count| (class, threads, &classes[class as usize]);
        let loads: Vec<Load> = self.running.iter().map(class).map(|(_, n, class)| class.load.times(n)).collect();
        let slowdown = memory::slowdown(load(socket, &loads, self.others));
        let pace = |(number, _, class): (u32, u32, &Class)| {
            let speed = FULL_SPEED as f64 * class.ns_alone / class.load.ns(slowdown) + 0.5;
            (number, Pace { speed: (speed as u64).clamp(1, FULL_SPEED), rates: class.load.rates(slowdown) })
        };
        let paces = self.running.iter().map(class).map(pace).collect();
        let balance = Arc::new(Balance { slowdown, paces });
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert(self.running.clone().into(), Arc::clone(&balance));
        balance
    }

    /// A reference to memory takes this many times its time on idle memory.
    pub fn slowdown(&self) -> f64 {
        self.balance.as_ref().map_or(1.0, |balance| balance.slowdown)
    }

    /// How a class fares that runs.
    pub fn pace(&self, class: u32) -> Pace {
        self.balance.as_ref().and_then(|balance| balance.pace(class)).copied().unwrap_or_default()
    }
}
