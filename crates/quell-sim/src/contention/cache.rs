//! One last-level cache while time passes: who used it since the last step, and what everybody has of it.

use super::llc::{Occupancy, Sharer};
use super::phases::Phases;
use super::profile::LINE;
use super::solve::Rates;
use crate::kernel::PhaseId;
use crate::timers::TimerId;

/// A share counts as changed when its miss ratio changes by more than this part of itself, …
const CHANGE: f64 = 1.0 / 256.0;
/// … and by more than this.
const LEAST_CHANGE: f64 = 1e-5;
/// What was used this many steps ago still counts a little where the cache turns over slowly.
const LEAST_WEIGHT: f64 = 1.0 / 64.0;
/// So few references a nanosecond are none: one in a quarter of an hour.
const NEVER: f64 = 1e-12;

/// What threads of a kind did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    pub rates: Rates,
    /// CPU time that they ran, ns.
    pub ran: f64,
}

/// One last-level cache.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    pub timer: TimerId,
    pub is_stepping: bool,
    /// By kind of work: what it did up to the last step, and since then.
    pub before: Vec<Rates>,
    pub window: Vec<Use>,
    window_began: u64,
    capacity: f64,
    occupancy: Occupancy,
    /// By kind: references a nanosecond, as the mean over about the time in which the cache is filled once.
    references: Vec<f64>,
    /// By kind: how many have data of their own.
    copies: Vec<f64>,
    /// By kind: bytes that each of them has, as of the last change.
    bytes: Vec<f64>,
}

impl Cache {
    pub fn new(timer: TimerId, ways: u32, bytes: f64, kinds: usize) -> Cache {
        Cache {
            timer,
            is_stepping: false,
            before: vec![Rates::default(); kinds],
            window: vec![Use::default(); kinds],
            window_began: 0,
            capacity: bytes,
            occupancy: Occupancy::new(ways, bytes),
            references: vec![0.0; kinds],
            copies: vec![1.0; kinds],
            bytes: vec![0.0; kinds],
        }
    }

    /// There are this many kinds of work now, no fewer than before.
    pub fn grow(&mut self, kinds: usize) {
        self.before.resize(kinds, Rates::default());
        self.window.resize(kinds, Use::default());
        self.references.resize(kinds, 0.0);
        self.copies.resize(kinds, 1.0);
        self.bytes.resize(kinds, 0.0);
    }

    /// Bytes that a thread of this kind finds its data in.
    pub fn bytes(&self, phase: PhaseId) -> f64 {
        self.bytes[usize::from(phase.0)]
    }

    /// Bytes of all threads of a kind.
    pub fn occupied(&self, phase: PhaseId) -> f64 {
        self.occupancy.of(usize::from(phase.0))
    }

    pub fn begin(&mut self, now: u64) {
        (self.is_stepping, self.window_began) = (true, now);
    }

    /// The parts move by what was used and missed since the last step. Says whether that changes anybody's speed; none:
    /// it was not used.
    pub fn step(&mut self, now: u64, phases: &Phases, ways: impl Fn(usize) -> u32) -> Option<bool> {
        let span = (now - self.window_began).max(1) as f64;
        self.window_began = now;
        let window = std::mem::take(&mut self.window);
        self.window.resize(window.len(), Use::default());
        if window.iter().all(|used| used.ran == 0.0) {
            self.is_stepping = false;
            return None;
        }
        let missed: Vec<f64> = window.iter().map(|used| used.rates.misses).collect();
        let turned_over = missed.iter().sum::<f64>() * LINE / self.capacity;
        let weight = turned_over.clamp(LEAST_WEIGHT, 1.0);
        for (at, used) in window.iter().enumerate() {
            self.before[at].add(&used.rates, 1.0);
            self.references[at] += weight * (used.rates.references / span - self.references[at]);
            if used.ran > 0.0 {
                self.copies[at] += weight * ((used.ran / span).max(1.0) - self.copies[at]);
            }
        }
        for (phase, known) in phases.each() {
            if known.profile.shared {
                self.copies[usize::from(phase.0)] = 1.0;
            }
        }
        let sharers: Vec<Sharer<'_>> = std::iter::once(None)
            .chain(phases.each().map(Some))
            .zip(&self.references)
            .zip(&self.copies)
            .map(|((phase, &references), &copies)| Sharer {
                references: if references > NEVER { references } else { 0.0 },
                copies,
                misses: phase.map_or(&NOTHING, |(_, known)| &known.profile.misses),
                ways: phase.map_or(0, |(_, known)| ways(known.tenant)),
            })
            .collect();
        let natural = self.occupancy.natural(&sharers);
        self.occupancy.settle(&natural, &missed);
        let mut changed = false;
        for (phase, known) in phases.each() {
            let at = usize::from(phase.0);
            let bytes = self.occupancy.of(at) / self.copies[at];
            let (was, is) = (known.profile.misses.ratio(self.bytes[at]), known.profile.misses.ratio(bytes));
            if (is - was).abs() > CHANGE * was.max(is) + LEAST_CHANGE {
                self.bytes[at] = bytes;
                changed = true;
            }
        }
        Some(changed)
    }
}

static NOTHING: super::MissCurve = super::MissCurve(std::borrow::Cow::Borrowed(&[(0.0, 0.0)]));
