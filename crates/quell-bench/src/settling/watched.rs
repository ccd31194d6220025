//! A thread that never rests and notes when it did not run, and where it runs. Without locks: it may be stopped anywhere.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};

use quell_thread::clock;

/// A shorter time without it is no gap, ns: ticks and interrupts.
const GAP_NS: u64 = 500_000;
/// Room for gaps; older ones are overwritten.
const GAPS: u64 = 4096;

/// Notes of a thread.
pub(super) struct Watched {
    tid: AtomicI32,
    stop: AtomicBool,
    /// When it was last seen running, ns.
    last: AtomicU64,
    cpu: AtomicU32,
    /// When it was first seen on that CPU, ns.
    moved: AtomicU64,
    noted: AtomicU64,
    /// When it was last seen before a gap, and first after it, ns.
    gaps: Vec<[AtomicU64; 2]>,
}

/// A time without the thread, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub from: u64,
    pub to: u64,
}

impl Watched {
    pub fn new() -> Watched {
        Watched {
            tid: AtomicI32::new(0),
            stop: AtomicBool::new(false),
            last: AtomicU64::new(0),
            cpu: AtomicU32::new(u32::MAX),
            moved: AtomicU64::new(0),
            noted: AtomicU64::new(0),
            gaps: (0..GAPS).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect(),
        }
    }

    /// What the thread does, until it is stopped.
    pub fn run(&self) {
        self.tid.store(rustix::thread::gettid().as_raw_pid(), Release);
        while !self.stop.load(Relaxed) {
            self.note(clock::now().0, rustix::thread::sched_getcpu() as u32);
        }
    }

    fn note(&self, now: u64, cpu: u32) {
        let last = self.last.load(Relaxed);
        if last > 0 && now.saturating_sub(last) >= GAP_NS {
            let noted = self.noted.load(Relaxed);
            let gap = &self.gaps[(noted % GAPS) as usize];
            gap[0].store(last, Relaxed);
            gap[1].store(now, Relaxed);
            self.noted.store(noted + 1, Release);
        }
        if cpu != self.cpu.load(Relaxed) {
            self.moved.store(now, Relaxed);
            self.cpu.store(cpu, Release);
        }
        self.last.store(now, Release);
    }

    /// Its thread's number, once it runs.
    pub fn tid(&self) -> Option<i32> {
        Some(self.tid.load(Acquire)).filter(|tid| *tid != 0)
    }

    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    pub fn last(&self) -> u64 {
        self.last.load(Acquire)
    }

    /// Where it runs, and since when.
    pub fn place(&self) -> (u32, u64) {
        (self.cpu.load(Acquire), self.moved.load(Relaxed))
    }

    /// The gaps that ended after this instant, in order.
    pub fn gaps_after(&self, ns: u64) -> impl Iterator<Item = Gap> {
        let noted = self.noted.load(Acquire);
        let of = |number: u64| {
            let [from, to] = &self.gaps[(number % GAPS) as usize];
            Gap { from: from.load(Relaxed), to: to.load(Relaxed) }
        };
        (noted.saturating_sub(GAPS / 2)..noted).map(of).filter(move |gap| gap.to > ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_moves_are_noted() {
        let watched = Watched::new();
        const MS: u64 = 1_000_000;
        for (now, cpu) in [(5 * MS, 0), (5 * MS + 10, 0), (9 * MS, 1), (9 * MS + 20, 1), (20 * MS, 1)] {
            watched.note(now, cpu);
        }
        let gaps: Vec<Gap> = watched.gaps_after(6 * MS).collect();
        assert_eq!(gaps, [Gap { from: 5 * MS + 10, to: 9 * MS }, Gap { from: 9 * MS + 20, to: 20 * MS }]);
        assert_eq!(watched.gaps_after(10 * MS).count(), 1);
        assert_eq!((watched.place(), watched.last()), ((1, 9 * MS), 20 * MS));
    }
}
