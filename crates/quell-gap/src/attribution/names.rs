//! Causes by number: with a thousand workloads they are compared too often for texts.

use std::collections::{BTreeMap, HashMap};

use super::{Cause, Key};
use crate::services::Holder;

/// The first numbers.
pub(super) const INTERRUPTS: usize = 0;
pub(super) const STEAL: usize = 1;
pub(super) const IDLE: usize = 2;
pub(super) const OWN: usize = 3;
pub(super) const UNKNOWN: usize = 4;

/// Every name once.
pub(super) struct Names<'a> {
    name: &'a mut dyn FnMut(Holder) -> Key,
    keys: Vec<Key>,
    of: HashMap<Holder, usize>,
    numbers: BTreeMap<Key, usize>,
}

impl<'a> Names<'a> {
    pub fn new(name: &'a mut dyn FnMut(Holder) -> Key) -> Names<'a> {
        let mut names = Names { name, keys: Vec::new(), of: HashMap::new(), numbers: BTreeMap::new() };
        for cause in [Cause::Interrupts, Cause::Steal, Cause::IdleCpu, Cause::OwnThreads, Cause::Unknown] {
            names.number(Key::of(cause));
        }
        names
    }

    /// The number of what has a CPU.
    pub fn of(&mut self, holder: Holder) -> usize {
        if let Some(&number) = self.of.get(&holder) {
            return number;
        }
        let key = (self.name)(holder);
        let number = self.number(key);
        self.of.insert(holder, number);
        number
    }

    pub fn key(&self, number: usize) -> &Key {
        &self.keys[number]
    }

    fn number(&mut self, key: Key) -> usize {
        *self.numbers.entry(key).or_insert_with_key(|key| {
            self.keys.push(key.clone());
            self.keys.len() - 1
        })
    }
}
