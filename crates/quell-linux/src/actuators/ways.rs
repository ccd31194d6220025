//! Ways of last-level caches that are wanted: of all, and of single ones.

use quell_model::LlcWays;

/// Caches that can have ways of their own.
const SINGLE: usize = 16;

/// Ways by cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ways {
    all: Option<u32>,
    single: [Option<LlcWays>; SINGLE],
}

impl Ways {
    /// The same ways in every cache.
    pub fn everywhere(mask: u32) -> Ways {
        Ways { all: Some(mask), ..Ways::default() }
    }

    /// Ways in one cache; false: too many have ways of their own.
    pub fn set(&mut self, ways: LlcWays) -> bool {
        let known = self.single.iter().position(|one| one.is_some_and(|one| one.llc == ways.llc));
        let at = known.or_else(|| self.single.iter().position(Option::is_none));
        at.map(|at| self.single[at] = Some(ways)).is_some()
    }

    /// The ways of a cache; None: all.
    pub fn of(&self, llc: u32) -> Option<u32> {
        let single = self.single.iter().flatten().find(|one| one.llc == llc);
        single.map(|one| one.mask).or(self.all)
    }
}
