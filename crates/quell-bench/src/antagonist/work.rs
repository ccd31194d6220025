//! The work itself: one block of each kind.

mod exchange;
mod forks;

use std::hint::black_box;
use std::sync::{Arc, Mutex};

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use self::exchange::Exchange;
use self::forks::Forks;
use super::spec::{AntagonistSpec, Kind};
use crate::Result;

const LINE_BYTES: usize = 64;
/// Steps of arithmetic in a block of [`Kind::Cpu`].
const CPU_STEPS: u32 = 16_384;
/// Elements of 8 bytes in a block of [`Kind::Stream`], in each of three arrays.
const STREAM_ELEMENTS: usize = 8_192;
/// Dependent loads in a block of [`Kind::Llc`].
const CHASE_LOADS: u32 = 1_024;
/// Lines in a block of [`Kind::Collector`].
const SCAN_LINES: usize = 1_024;

/// One thread's work.
pub(crate) trait Work: Send {
    /// Does one block.
    fn block(&mut self);

    /// CPU time that its blocks took on other threads, ns.
    fn elsewhere_ns(&self) -> u64 {
        0
    }
}

/// Shared state of an antagonist's threads; each thread's part comes from [`Shared::thread`].
pub(crate) struct Shared {
    spec: AntagonistSpec,
    ring: Arc<[Line]>,
    /// Each thread's for [`Kind::Messages`], until the thread has it.
    ends: Mutex<Vec<Option<Exchange>>>,
}

impl Shared {
    pub fn new(spec: &AntagonistSpec) -> Result<Self> {
        let ring = match spec.kind {
            Kind::Llc => ring(spec.working_set_bytes as usize / LINE_BYTES),
            _ => Arc::default(),
        };
        let ends = match spec.kind {
            Kind::Messages => Exchange::all(spec.threads)?,
            _ => Vec::new(),
        };
        Ok(Self { spec: spec.clone(), ring, ends: Mutex::new(ends) })
    }

    /// The work of one thread, all its memory touched. Called on that thread, so that its memory is near it.
    pub fn thread(&self, number: u32) -> Box<dyn Work> {
        let bytes = (self.spec.working_set_bytes / u64::from(self.spec.threads)) as usize;
        match self.spec.kind {
            Kind::Cpu => Box::new(Arithmetic::new(number)),
            Kind::Forks => Box::new(Forks::new(number)),
            Kind::Messages => {
                let end = self.ends.lock().ok().and_then(|mut ends| ends[number as usize].take());
                Box::new(end.expect("each thread asks once"))
            }
            Kind::Stream => Box::new(Triad::new(bytes)),
            Kind::Llc => {
                let position = (self.ring.len() as u64 * u64::from(number) / u64::from(self.spec.threads)) as u32;
                Box::new(Chase { ring: Arc::clone(&self.ring), position })
            }
            Kind::Collector => {
                Box::new(Scan { heap: vec![Line { next: 1, rest: [0; 15] }; bytes / LINE_BYTES], at: 0 })
            }
        }
    }

    /// Memory traffic of a block as the program sees it, bytes; 0 where memory is not its point.
    pub fn bytes_per_block(kind: Kind) -> u64 {
        let bytes = match kind {
            Kind::Cpu | Kind::Forks | Kind::Messages => 0,
            Kind::Stream => 3 * 8 * STREAM_ELEMENTS,
            Kind::Llc => CHASE_LOADS as usize * LINE_BYTES,
            Kind::Collector => SCAN_LINES * LINE_BYTES,
        };
        bytes as u64
    }
}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    next: u32,
    rest: [u32; 15],
}

/// Marsaglia's xorshift64: a chain of dependent steps, so that no compiler and no wide CPU shortens it.
struct Arithmetic {
    state: u64,
}

impl Arithmetic {
    pub fn new(number: u32) -> Self {
        Self { state: u64::from(number) + 88_172_645_463_325_252 }
    }

    pub fn steps(&mut self, steps: u32) {
        let mut x = self.state;
        for _ in 0..steps {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        self.state = black_box(x);
    }
}

impl Work for Arithmetic {
    fn block(&mut self) {
        self.steps(CPU_STEPS);
    }
}

struct Triad {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    at: usize,
}

impl Triad {
    fn new(bytes: usize) -> Self {
        let elements = (bytes / 24 / STREAM_ELEMENTS).max(1) * STREAM_ELEMENTS;
        Self { a: vec![1.0; elements], b: vec![2.0; elements], c: vec![3.0; elements], at: 0 }
    }
}

impl Work for Triad {
    fn block(&mut self) {
        let range = self.at..self.at + STREAM_ELEMENTS;
        let sources = self.b[range.clone()].iter().zip(&self.c[range.clone()]);
        for (a, (b, c)) in self.a[range.clone()].iter_mut().zip(sources) {
            *a = *b + 0.5 * *c;
        }
        black_box(&mut self.a);
        self.at = if range.end == self.a.len() { 0 } else { range.end };
    }
}

struct Chase {
    ring: Arc<[Line]>,
    position: u32,
}

impl Work for Chase {
    fn block(&mut self) {
        for _ in 0..CHASE_LOADS {
            self.position = self.ring[self.position as usize].next;
        }
        black_box(self.position);
    }
}

/// Lines in one cycle of random order (Sattolo's permutation): the next load's address is known only when the last
/// one has come.
fn ring(lines: usize) -> Arc<[Line]> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut order: Vec<u32> = (0..lines as u32).collect();
    order.shuffle(&mut rng);
    let mut ring = vec![Line { next: 0, rest: [0; 15] }; lines];
    for (index, line) in order.iter().enumerate() {
        ring[*line as usize].next = order[(index + 1) % lines];
        ring[*line as usize].rest[0] = rng.random();
    }
    ring.into()
}

struct Scan {
    heap: Vec<Line>,
    at: usize,
}

impl Work for Scan {
    fn block(&mut self) {
        let end = (self.at + SCAN_LINES).min(self.heap.len());
        for line in &mut self.heap[self.at..end] {
            // The mark in the object's header; the next step depends on its present value.
            line.next ^= 1;
            line.rest[0] = line.rest[0].wrapping_add(line.next);
        }
        black_box(&mut self.heap);
        self.at = if end == self.heap.len() { 0 } else { end };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_one_cycle_over_all_lines() {
        for lines in [1, 2, 1000, 16_384] {
            let ring = ring(lines);
            let mut position = 0;
            let mut steps = 0;
            loop {
                position = ring[position as usize].next;
                steps += 1;
                if position == 0 {
                    break;
                }
            }
            assert_eq!(steps, lines);
        }
    }

    #[test]
    fn every_block_advances_and_wraps() {
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Messages) {
            let spec = AntagonistSpec::usual(kind, 2, 1 << 20);
            let spec = AntagonistSpec { working_set_bytes: 2 << 20, ..spec };
            let shared = Shared::new(&spec).unwrap();
            let mut work = shared.thread(1);
            // More than the working set.
            let blocks = (3 << 20) / Shared::bytes_per_block(kind).max(1 << 17) + 20;
            let blocks = if kind == Kind::Forks { 20 } else { blocks };
            (0..blocks).for_each(|_| work.block());
        }
    }

    #[test]
    fn a_scan_marks_every_line_once_a_round() {
        let mut scan = Scan { heap: vec![Line { next: 1, rest: [0; 15] }; 2_500], at: 0 };
        (0..3).for_each(|_| scan.block());
        assert!(scan.heap.iter().all(|line| line.next == 0) && scan.at == 0);
        scan.block();
        assert_eq!(scan.heap.iter().filter(|line| line.next == 1).count(), SCAN_LINES);
    }

    #[test]
    fn the_triad_computes_the_triad() {
        let mut triad = Triad::new(24 * 2 * STREAM_ELEMENTS);
        triad.block();
        assert!(triad.a[..STREAM_ELEMENTS].iter().all(|a| *a == 3.5));
        assert!(triad.a[STREAM_ELEMENTS..].iter().all(|a| *a == 1.0));
        triad.block();
        assert!(triad.a.iter().all(|a| *a == 3.5) && triad.at == 0);
    }
}
