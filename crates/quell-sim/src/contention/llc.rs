//! Who has how much of a last-level cache.
//!
//! The cache throws out what was not used for longest. All that was used in the last T nanoseconds is in it then, and T
//! is as long as that just fits: every workload has the footprint of the same stretch of time. A footprint grows by what
//! misses, references times the miss ratio of what there is already, so that the miss-ratio curve says all (the theory
//! of Xiang et al., HOTL, ASPLOS 2013). Two that are equal have equal parts; who streams pushes out who comes back
//! seldom; who needs little has that little. With masks of ways the same holds in each way, and a workload fills its
//! allowed ways evenly.

use super::profile::{LINE, MissCurve};

/// The parts of the cache into which the growth of footprints is divided.
const PIECES: f64 = 128.0;

/// Whose data is in a cache.
#[derive(Clone, Copy, Debug)]
pub struct Sharer<'a> {
    /// Its references in the time looked at.
    pub references: f64,
    /// How many have data of their own: 1 where all threads share it.
    pub copies: f64,
    /// The part of references that miss, by how much each copy has.
    pub misses: &'a MissCurve,
    /// The ways that it may fill, one bit each.
    pub ways: u32,
}

impl Sharer<'_> {
    fn may_fill(&self, way: usize) -> bool {
        way < 32 && self.ways >> way & 1 == 1
    }

    /// The part of its references that misses while it has this many bytes in all.
    #[must_use]
    pub fn miss_ratio(&self, bytes: f64) -> f64 {
        self.misses.ratio(bytes / self.copies.max(1.0))
    }
}

/// What everybody has of each way, bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    ways: usize,
    way_bytes: f64,
    /// By sharer, then by way.
    bytes: Vec<f64>,
}

/// Ways that the same sharers may fill; all of them are alike.
struct Region {
    ways: Vec<usize>,
    sharers: Vec<usize>,
    /// What is empty of each way.
    room: f64,
    /// By sharer of this region: what it has of each way.
    filled: Vec<f64>,
    /// What comes into each way in a unit of time.
    inflow: f64,
}

fn open_ways(regions: &[Region], sharers: usize) -> Vec<usize> {
    let mut open = vec![0; sharers];
    for region in regions.iter().filter(|region| region.room > 0.0) {
        region.sharers.iter().for_each(|&at| open[at] += region.ways.len());
    }
    open
}

impl Occupancy {
    /// An empty cache of this many ways and bytes.
    #[must_use]
    pub fn new(ways: u32, bytes: f64) -> Occupancy {
        let ways = ways.clamp(1, 32);
        Occupancy { ways: ways as usize, way_bytes: bytes / f64::from(ways), bytes: Vec::new() }
    }

    /// Where everybody's part would settle: the footprints of the stretch of time that fills the cache.
    #[must_use]
    pub fn natural(&self, sharers: &[Sharer<'_>]) -> Occupancy {
        let mut regions = self.regions(sharers);
        let (mut has, mut rates) = (vec![0.0; sharers.len()], vec![0.0; sharers.len()]);
        let piece = self.way_bytes * self.ways as f64 / PIECES;
        // By sharer: the ways that it may fill and that still have room.
        let mut open = open_ways(&regions, sharers.len());
        loop {
            // What each fills in a way that still has room, and what fills each such way.
            let mut total = 0.0;
            for (at, sharer) in sharers.iter().enumerate().filter(|(_, sharer)| sharer.references > 0.0) {
                let grows = if open[at] > 0 { sharer.references * sharer.miss_ratio(has[at]) } else { 0.0 };
                rates[at] = grows / open[at].max(1) as f64;
                total += grows;
            }
            if total <= 0.0 {
                break;
            }
            // Until the next piece of the cache is full, or a way of it.
            let mut span = piece / total;
            for region in regions.iter_mut().filter(|region| region.room > 0.0) {
                region.inflow = region.sharers.iter().map(|&at| rates[at]).sum();
                if region.inflow > 0.0 {
                    span = span.min(region.room / region.inflow);
                }
            }
            let mut closes = false;
            for region in regions.iter_mut().filter(|region| region.room > 0.0) {
                region.room -= region.inflow * span;
                for (filled, &at) in region.filled.iter_mut().zip(&region.sharers) {
                    *filled += rates[at] * span;
                    has[at] += rates[at] * span * region.ways.len() as f64;
                }
                if region.room < self.way_bytes * 1e-9 {
                    region.room = 0.0;
                }
                closes |= region.room <= 0.0;
            }
            if closes {
                open = open_ways(&regions, sharers.len());
            }
        }
        let mut natural = Occupancy { bytes: vec![0.0; sharers.len() * self.ways], ..*self };
        for region in &regions {
            for (&at, filled) in region.sharers.iter().zip(&region.filled) {
                region.ways.iter().for_each(|&way| natural.bytes[at * self.ways + way] = *filled);
            }
        }
        natural
    }

    fn regions(&self, sharers: &[Sharer<'_>]) -> Vec<Region> {
        let mut regions: Vec<Region> = Vec::new();
        for way in 0..self.ways {
            let fills = |at: &usize| sharers[*at].references > 0.0 && sharers[*at].may_fill(way);
            let who: Vec<usize> = (0..sharers.len()).filter(fills).collect();
            match regions.iter_mut().find(|region| region.sharers == who) {
                Some(region) => region.ways.push(way),
                None => {
                    let filled = vec![0.0; who.len()];
                    regions.push(Region { ways: vec![way], sharers: who, room: self.way_bytes, filled, inflow: 0.0 });
                }
            }
        }
        regions
    }

    /// Bytes of this sharer.
    #[must_use]
    pub fn of(&self, sharer: usize) -> f64 {
        self.bytes.get(sharer * self.ways..(sharer + 1) * self.ways).map_or(0.0, |ways| ways.iter().sum())
    }

    /// Moves towards where it would settle: everybody grows by no more than the lines that it missed meanwhile, and what
    /// does not fit any more is taken from those who have more than they will keep.
    pub fn settle(&mut self, natural: &Occupancy, missed: &[f64]) {
        self.bytes.resize(natural.bytes.len(), 0.0);
        for (sharer, missed) in missed.iter().enumerate() {
            let own = sharer * self.ways..(sharer + 1) * self.ways;
            let wants = |(has, will): (&f64, &f64)| (will - has).max(0.0);
            let wanted: f64 = self.bytes[own.clone()].iter().zip(&natural.bytes[own.clone()]).map(wants).sum();
            if wanted > 0.0 {
                let part = (missed * LINE / wanted).min(1.0);
                for at in own {
                    self.bytes[at] += part * (natural.bytes[at] - self.bytes[at]).max(0.0);
                }
            }
        }
        for way in 0..self.ways {
            let all = (way..self.bytes.len()).step_by(self.ways);
            let total: f64 = all.clone().map(|at| self.bytes[at]).sum();
            let over = total - self.way_bytes;
            let spare: f64 = all.clone().map(|at| (self.bytes[at] - natural.bytes[at]).max(0.0)).sum();
            if over > 0.0 && spare > 0.0 {
                let part = (over / spare).min(1.0);
                all.for_each(|at| self.bytes[at] -= part * (self.bytes[at] - natural.bytes[at]).max(0.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    const MIB: f64 = 1_048_576.0;
    const STREAM: MissCurve = MissCurve(Cow::Borrowed(&[(0.0, 1.0)]));
    const FITS: MissCurve = MissCurve(Cow::Borrowed(&[(0.0, 1.0), (4.0, 0.0)]));
    const ALL: u32 = 0xf_ffff;

    fn sharer(references: f64, misses: &MissCurve, ways: u32) -> Sharer<'_> {
        Sharer { references, copies: 1.0, misses, ways }
    }

    fn settled(sharers: &[Sharer<'_>]) -> Vec<f64> {
        let natural = Occupancy::new(20, 20.0 * MIB).natural(sharers);
        (0..sharers.len()).map(|at| natural.of(at) / MIB).collect()
    }

    fn near(found: &[f64], expected: &[f64]) {
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 0.2;
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(is_near), "{found:?} {expected:?}");
    }

    #[test]
    fn parts_follow_what_is_used_and_missed() {
        near(&settled(&[sharer(1.0, &STREAM, ALL), sharer(1.0, &STREAM, ALL)]), &[10.0, 10.0]);
        near(&settled(&[sharer(3.0, &STREAM, ALL), sharer(1.0, &STREAM, ALL)]), &[15.0, 5.0]);
        near(&settled(&[sharer(1.0, &FITS, ALL), sharer(1.0, &STREAM, ALL)]), &[4.0, 16.0]);
        // Who comes back seldom keeps little: 4 MiB · (1 − e^(−T)) of its own in the time in which a stream fills the rest.
        let seldom = settled(&[sharer(0.1, &FITS, ALL), sharer(1.0, &STREAM, ALL)])[0];
        assert!((0.8..2.0).contains(&seldom), "{seldom}");
        near(&settled(&[sharer(0.0, &STREAM, ALL)]), &[0.0]);
        let copies = Sharer { copies: 4.0, ..sharer(1.0, &FITS, ALL) };
        near(&settled(&[copies]), &[16.0]);
    }

    #[test]
    fn masks_bound_what_is_filled() {
        near(&settled(&[sharer(9.0, &STREAM, 0x3), sharer(1.0, &STREAM, ALL ^ 0x3)]), &[2.0, 18.0]);
        // Both may fill the lower ways, one of them the others too.
        let shared = settled(&[sharer(1.0, &STREAM, 0x3ff), sharer(1.0, &STREAM, ALL)]);
        assert!(shared[0] > 5.0 && shared[0] < 7.0, "{shared:?}");
        near(&[shared[0] + shared[1]], &[20.0]);
        near(&settled(&[sharer(1.0, &STREAM, 0)]), &[0.0]);
    }

    #[test]
    fn parts_move_by_what_is_missed_and_nobody_loses_what_nobody_needs() {
        let mut cache = Occupancy::new(20, 20.0 * MIB);
        let first = [sharer(1.0, &STREAM, ALL), sharer(0.0, &STREAM, ALL)];
        let lines = |mib: f64| mib * MIB / LINE;
        cache.settle(&cache.natural(&first), &[lines(5.0), 0.0]);
        near(&[cache.of(0) / MIB, cache.of(1)], &[5.0, 0.0]);
        cache.settle(&cache.natural(&first), &[lines(100.0), 0.0]);
        near(&[cache.of(0) / MIB], &[20.0]);
        // The other one begins, with ways of its own; what is in them gives way, the rest stays.
        let second = [sharer(0.0, &STREAM, ALL), sharer(1.0, &STREAM, 0x3ff)];
        cache.settle(&cache.natural(&second), &[0.0, lines(4.0)]);
        near(&[cache.of(0) / MIB, cache.of(1) / MIB], &[16.0, 4.0]);
        cache.settle(&cache.natural(&second), &[0.0, lines(100.0)]);
        near(&[cache.of(0) / MIB, cache.of(1) / MIB], &[10.0, 10.0]);
    }
}
