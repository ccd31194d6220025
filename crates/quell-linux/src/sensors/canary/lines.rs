//! This machine's memory: a chase through lines that were flushed from all caches after the last one.

use std::hint::black_box;

use super::{Memory, median};
use crate::clock;

/// The instructions that take lines out of all caches, and wait for it. They change no value.
#[cfg(target_arch = "x86_64")]
mod caches {
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};

    pub fn flush(word: &usize) {
        // SAFETY: the line is mapped, and x86-64 has SSE2, to which the instruction belongs.
        unsafe { _mm_clflush((&raw const *word).cast()) };
    }

    pub fn wait() {
        // SAFETY: as above.
        unsafe { _mm_mfence() };
    }
}

/// The same; Linux allows user space to clean lines (SCTLR_EL1.UCI), and traps and executes it where a CPU has a fault in it.
#[cfg(target_arch = "aarch64")]
mod caches {
    use std::arch::asm;

    pub fn flush(word: &usize) {
        // SAFETY: the line is mapped; cleaned and invalidated it has the same value.
        unsafe { asm!("dc civac, {}", in(reg) &raw const *word, options(nostack, preserves_flags)) };
    }

    pub fn wait() {
        // SAFETY: a barrier.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    }
}

/// Chases of a look; the middle one counts, so that an interrupt in one does no harm.
const CHASES: usize = 8;

/// Accesses of a chase, each to where the one before led.
const HOPS: usize = 8;

const LINES: usize = CHASES * HOPS;

/// Words from one line to the next: a page and a line, so that no prefetcher goes from one to the other, and they are not
/// all in one set of a cache.
const STRIDE: usize = (4096 + 64) / size_of::<usize>();

/// Lines of memory whose first words lead from one to the next, through all of them.
#[derive(Debug)]
pub(super) struct Lines {
    words: Vec<usize>,
    at: usize,
}

impl Lines {
    pub fn new() -> Lines {
        let mut words = vec![0; LINES * STRIDE];
        for line in 0..LINES {
            // A full cycle through a power of two (Hull and Dobell 1962), without a stride.
            words[line * STRIDE] = (5 * line + 3) % LINES * STRIDE;
        }
        let lines = Lines { words, at: 0 };
        lines.flush();
        lines
    }

    /// Out of all caches.
    fn flush(&self) {
        for line in 0..LINES {
            caches::flush(&self.words[line * STRIDE]);
        }
        caches::wait();
    }

    fn chase_ns(&mut self) -> f64 {
        let begun = clock::now();
        for _ in 0..HOPS {
            self.at = black_box(self.words[self.at]);
        }
        (clock::now() - begun).0 as f64 / HOPS as f64
    }

    fn look_ns(&mut self, flushes: bool) -> f64 {
        let mut chases = [0.0; CHASES];
        chases.fill_with(|| self.chase_ns());
        if flushes {
            self.flush();
        }
        median(&mut chases)
    }
}

impl Memory for Lines {
    fn access_ns(&mut self) -> f64 {
        self.look_ns(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_goes_through_every_line_once() {
        let lines = Lines::new();
        let mut seen = std::collections::BTreeSet::new();
        let mut at = 0;
        for _ in 0..LINES {
            at = lines.words[at];
            assert!(seen.insert(at));
        }
        assert_eq!(at, 0);
    }

    /// Memory takes many times as long as a cache: had a cache answered, both would be the same.
    #[test]
    fn no_cache_answers() {
        let mut lines = Lines::new();
        let mut median_ns = |flushes: bool| {
            let mut looks: Vec<f64> = (0..200).map(|_| lines.look_ns(flushes)).collect();
            median(&mut looks)
        };
        let (cached, flushed) = (median_ns(false), median_ns(true));
        assert!(flushed > 1.5 * cached, "{flushed} ns, from a cache {cached} ns");
    }
}
